//! Counters in Redis, against real servers: what every store promises, and what happens when a server
//! does not.

#[path = "contract/draw.rs"]
mod draw;
#[path = "contract/model.rs"]
mod model;
#[path = "contract/suite.rs"]
mod suite;

#[path = "redis/agreement.rs"]
mod agreement;
#[path = "redis/mutants.rs"]
mod mutants;
#[path = "redis/stand.rs"]
mod stand;
