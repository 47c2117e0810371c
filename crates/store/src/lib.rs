//! Where counters live.
//!
//! A [`Store`] takes charges and gives back what became of them: data in, data out, atomic over the
//! whole slice. All arithmetic is `tollgate-core`'s. The [`MemoryStore`] keeps counters in this
//! process.

pub mod memory;
mod store;

pub use memory::MemoryStore;
pub use store::{Refund, Settlement, Store, StoreError, StoreErrorKind};
