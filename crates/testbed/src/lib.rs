//! Real servers for tests, because a double of a server only proves what its author believed.
//!
//! Each one is started on free ports in a temporary folder, and ends when it is dropped, or with the
//! process that started it, however that ends. All calls block, so that tests of any kind can use
//! them.
//!
//! This is support for tests and benchmarks: whatever goes wrong here is a panic that says what was
//! wanted and what the server said. A test without its server must fail, never pass unseen.

mod clock;
mod eventually;
pub mod hostile_text;
mod port;
mod postgres;
mod process;
mod proxy;
mod redis;
mod resp;
mod signal;
mod wait;

pub use clock::{Stopwatch, tokio_now};
pub use eventually::eventually;
pub use port::free_port;
pub use postgres::Postgres;
pub use proxy::{Fault, FaultProxy};
pub use redis::cluster::RedisCluster;
pub use redis::sentinels::Sentinels;
pub use redis::{Redis, RedisBuilder};
pub use resp::Reply;
pub use wait::{WAIT_TIMEOUT, until};
