//! Counters in Redis, against real servers: what every store promises, and what happens when a server
//! does not. `TOLLGATE_PROPTEST_CASES=20` makes a campaign of the random traces.

mod agreement;
mod calendar;
mod exactness;
mod failures;
mod hostile;
mod idle;
mod leaks;
mod lifetimes;
mod load;
mod mutants;
mod network;
mod old_counters;
mod records;
mod rights;
mod spread;
mod stand;
mod topology;

use crate::contract::draw;
use crate::contract::suite;
