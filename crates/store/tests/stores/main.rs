//! Stores, against real servers: what every store promises, and what happens when a server does not.

mod contract;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
