//! Counters in Redis, against real servers: what every store promises, and what happens when a server
//! does not. `TOLLGATE_PROPTEST_CASES=20` makes a campaign of the random traces.

#[path = "contract/draw.rs"]
mod draw;
#[path = "contract/model.rs"]
mod model;
#[path = "contract/suite.rs"]
mod suite;

#[path = "redis/agreement.rs"]
mod agreement;
#[path = "support/eventually.rs"]
mod eventually;
#[path = "redis/exactness.rs"]
mod exactness;
#[path = "redis/failures.rs"]
mod failures;
#[path = "redis/hostile.rs"]
mod hostile;
#[path = "redis/leaks.rs"]
mod leaks;
#[path = "redis/lifetimes.rs"]
mod lifetimes;
#[path = "redis/load.rs"]
mod load;
#[path = "redis/mutants.rs"]
mod mutants;
#[path = "redis/network.rs"]
mod network;
#[path = "redis/rights.rs"]
mod rights;
#[path = "redis/spread.rs"]
mod spread;
#[path = "redis/stand.rs"]
mod stand;
#[path = "redis/topology.rs"]
mod topology;
