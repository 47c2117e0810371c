//! Prefetches a cache line before it is needed. The only `unsafe` code of the store.
//!
//! At ten million counters nearly every check misses the cache. A batch that prefetches all its lines before it reads
//! them waits for one miss instead of sixteen (`docs/performance.md`).
#![allow(unsafe_code)]

/// Starts loading the line at `address`. A hint: it reads nothing, writes nothing and cannot fault,
/// so `address` may be anything, also memory that was freed since.
#[inline]
pub(crate) fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHT0 is defined for every address; an unmapped one is ignored. It is part of
    // SSE, which every x86_64 processor has.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
