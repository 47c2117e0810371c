//! Where counters live.
//!
//! A [`Store`] carries out operations ([`Op`]): data in, data out, each request all or nothing. All arithmetic is `tollgate-core`'s. The [`MemoryStore`] keeps counters in this
//! process.

// A program with one of the shared stores does without what a fleet of servers asks any of them.
#![cfg_attr(not(all(feature = "postgres", feature = "redis")), allow(dead_code))]

#[cfg(all(feature = "postgres", feature = "redis"))]
mod any;
mod deny_cache;
mod histogram;
mod idempotency;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod mailbox;
pub mod memory;
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
pub use idempotency::{IdempotencyKey, RecordRef};
#[cfg(all(feature = "postgres", feature = "redis"))]
pub use mailbox::{Mailbox, StoreSubscriptions};
pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::{
    KeyContent, PolicyCopyError, PolicyCopyHead, PolicyPublication, PublishedRules,
    RedisPolicyCopy, RedisRuleCache, RuleCacheError, SealedPolicy, StoredCounter,
};
#[cfg(feature = "remote")]
pub use remote::{
    BreakerState, CounterKey, FleetGate, RemoteSettings, RemoteStatus, StoreMark, StoreNumber,
};
pub use store::{
    ExpiringRefund, Op, OpOutcome, Outcomes, Refund, RefundOnce, SettleRequest, Settlement, Store,
    StoreError, StoreErrorKind,
};
