//! Counters in Redis, against real servers: what every store promises, and what happens when a server
//! does not. `TOLLGATE_PROPTEST_CASES=20` makes a campaign of the random traces.

mod agreement;
mod calendar;
mod exactness;
mod failures;
mod held;
mod hostile;
mod idle;
mod leaks;
mod lifetimes;
mod load;
mod mutants;
mod mutants_by_clock;
mod network;
mod old_counters;
mod pipelining;
mod records;
mod rights;
mod spread;
mod stand;
mod topology;
mod writes;

use crate::contract::draw;
use crate::contract::suite;
