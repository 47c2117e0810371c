//! How much memory the process has allocated and not freed, to the byte.
// A global allocator is the only way to count what is kept, and implementing one is unsafe.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, counting what is kept.
struct Counting;

static KEPT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        KEPT.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        KEPT.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        KEPT.fetch_add(size, Ordering::Relaxed);
        KEPT.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bytes that are kept at present.
pub(crate) fn kept() -> usize {
    KEPT.load(Ordering::Relaxed)
}

/// The allocator does count.
#[test]
fn allocated_bytes_are_counted() {
    crate::run_alone(&mut crate::threads(), async {
        let before = kept();
        let large = std::hint::black_box(vec![0_u8; 16 << 20]);
        // The threads of the test runner need a little now and then.
        assert!(kept() > before + (15 << 20));
        drop(large);
        assert!(kept() < before + (1 << 20));
    });
}
