//! Checking an allowed request allocates nothing: three rules of a thousand apply, and the counters of
//! the client exist already.
// A global allocator is the only way to count allocations, and implementing one is unsafe.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write as _;

use tollgate::{Algorithm, Limiter, ManualClock, MemoryStore, Policy, Request, Timestamp};

/// The system's allocator, counting what each thread asks of it.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ASKED.with(|asked| asked.set(asked.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are handed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `work` asks for memory.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ASKED.with(Cell::get);
    work();
    ASKED.with(Cell::get) - before
}

/// A thousand rules, of which three of each algorithm apply to what is asked below.
fn policy(algorithm: Algorithm) -> Policy {
    let mut text = String::from("rules:\n");
    let mut rule = |id: &str, fields: &str| {
        let limit = "limit: 9000, window: 1h";
        writeln!(text, "  - {{rule_id: {id}, {limit}, algorithm: {algorithm}, {fields}}}")
            .expect("a string takes everything");
    };
    for number in 0..997 {
        let fields =
            format!("identifier_type: user_id, applies_to: {{endpoints: [/service/{number}/*]}}");
        rule(&format!("service_{number}"), &fields);
    }
    rule("user", "identifier_type: user_id, applies_to: {methods: [GET, POST]}");
    rule("tenant", "identifier_type: [tenant, ip], applies_to: {endpoints: ['/orders/{id}']}");
    rule("key", "identifier_type: api_key, applies_to: {hosts: ['*.example.com']}");
    Policy::from_text(&text).expect("a valid policy")
}

#[test]
fn an_allowed_check_allocates_nothing() {
    // A log remembers every admission, so it grows now and then.
    let without_log = Algorithm::ALL.into_iter().filter(|one| *one != Algorithm::SlidingWindowLog);
    for algorithm in without_log {
        let limiter = Limiter::builder()
            .policy(policy(algorithm))
            .store(MemoryStore::with_bytes(0))
            .clock(ManualClock::at(Timestamp::from_secs(1_700_006_400)))
            .build();
        let request = Request::new()
            .method("GET")
            .host("api.example.com")
            .path("/orders/17")
            .user_id("alice")
            .tenant("acme")
            .ip("2001:db8:1:2:3:4:5:6")
            .api_key("0123456789abcdef");
        let first = limiter.check(&request).now();
        assert_eq!(first.outcomes().count(), 3, "{algorithm}");
        // Its memory is used again.
        drop(first);
        for number in 2..500 {
            let asked = allocations(|| assert!(limiter.check(&request).now().is_allowed()));
            assert_eq!(asked, 0, "{algorithm}, check number {number}");
        }
    }
}

/// The allocator does count.
#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}
