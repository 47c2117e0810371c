//! A check in a batch allocates nothing of its own: texts are borrowed from the body, decisions made sixteen at a time,
//! and results written into one buffer.
// A global allocator is the only way to count allocations, and implementing one is unsafe.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Runtime;
use tollgate_server::listen::{Listener, Shutdown};
use tollgate_server::settings::Settings;
use tollgate_server::{App, Service};

/// The system's allocator, counting what all threads ask of it.
struct Counting;

static ASKED: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const POLICY: &str = "\
rules:
- {rule_id: per_user, identifier_type: user_id, limit: 1000000, window: 1h}
- {rule_id: per_address, identifier_type: ip, limit: 1000000, window: 1h, algorithm: gcra}
";

/// A batch of so many checks by as many clients, as it is sent.
fn call(checks: usize) -> Vec<u8> {
    let mut body = String::from("{\"checks\":[");
    for number in 0..checks {
        let comma = if number > 0 { "," } else { "" };
        let written = write!(
            body,
            "{comma}{{\"identifiers\":{{\"user_id\":\"user-{number}\",\"ip\":\"10.0.{}.{}\"}},\
             \"endpoint\":\"/orders/{number}\",\"method\":\"GET\"}}",
            number / 256,
            number % 256
        );
        written.expect("a string takes everything");
    }
    body.push_str("]}");
    let length = body.len();
    let head = format!(
        "POST /api/v1/rate-limit/check/batch HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    (head + &body).into_bytes()
}

/// Sends a call and reads the response, which allocates nothing here. Returns the length of the response.
fn send(connection: &mut TcpStream, call: &[u8], buffer: &mut [u8]) -> usize {
    connection.write_all(call).expect("sent");
    let (mut length, mut whole) = (0, usize::MAX);
    while length < whole {
        length += connection.read(&mut buffer[length..]).expect("a response");
        let read = std::str::from_utf8(&buffer[..length]).expect("text");
        if let Some(head) = read.find("\r\n\r\n") {
            assert!(read.starts_with("HTTP/1.1 200"), "{read}");
            let body = read.split("content-length: ").nth(1).and_then(|it| it.split('\r').next());
            let body: usize = body.expect("a length").parse().expect("a number");
            whole = head + 4 + body;
        }
    }
    length
}

/// A server in this process, on a port of its own.
async fn start(settings: &Settings, shutdown: Shutdown) -> SocketAddr {
    let app = Arc::new(App::new(settings).await.expect("settings that work"));
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(address, None, &settings.limits).await.expect("a port");
    let address = listener.address();
    Service::Public(app).spawn(listener, shutdown);
    address
}

#[test]
fn a_check_in_a_batch_allocates_nothing_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, POLICY).expect("written");
    let settings = Settings { rules: Some(rules), ..Settings::default() };
    let runtime = Runtime::new().expect("a runtime");
    let (_trigger, shutdown) = Shutdown::new();
    let address = runtime.block_on(start(&settings, shutdown));

    let mut connection = TcpStream::connect(address).expect("a connection");
    let mut buffer = vec![0; 1 << 20];
    let (small, large) = (call(100), call(1_000));
    let mut allocations_of = |call: &[u8]| {
        let before = ASKED.load(Ordering::Relaxed);
        for _ in 0..100 {
            send(&mut connection, call, &mut buffer);
        }
        ASKED.load(Ordering::Relaxed) - before
    };
    // Counters, buffers and journal are filled first.
    for _ in 0..3 {
        allocations_of(&large);
    }
    let (few, many) = (allocations_of(&small), allocations_of(&large));
    // 90,000 more checks, for whose decisions there are 5,600 buffers more. Those that grow with a call are doubled a few
    // times, and a large body arrives in parts.
    let more = many.saturating_sub(few);
    assert!(more < 9_000, "{few} for 100 calls of 100 checks, {many} for 100 calls of 1,000");
}
