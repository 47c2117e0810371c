//! The library as programs use it: limiters, what they do without their store, HTTP and tower.

mod failure;
mod faulty;
#[cfg(feature = "http")]
mod http;
mod limiter;
mod scene;
#[cfg(all(feature = "redis", feature = "tower"))]
mod tower;
