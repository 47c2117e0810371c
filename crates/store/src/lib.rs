//! Where counters live.
//!
//! A [`Store`] takes charges and gives back what became of them: data in, data out, atomic over the
//! whole slice. All arithmetic is `tollgate-core`'s. The [`MemoryStore`] keeps counters in this
//! process.

#[cfg(all(feature = "postgres", feature = "redis"))]
mod any;
mod deny_cache;
mod histogram;
pub mod memory;
mod once;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "remote")]
mod remote;
mod store;

#[cfg(all(feature = "postgres", feature = "redis"))]
pub use any::{AnyStore, StoreUrl};
pub use deny_cache::DenyCache;
pub use histogram::{Histogram, HistogramSnapshot};
pub use memory::MemoryStore;
pub use once::{Once, Settled};
#[cfg(feature = "redis")]
pub use redis::{Announcement, BoardError, RedisBoard};
#[cfg(feature = "remote")]
pub use remote::{BreakerState, RemoteSettings, RemoteStatus};
pub use store::{Refund, Settlement, Store, StoreError, StoreErrorKind};
