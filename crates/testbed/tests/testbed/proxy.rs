//! The network that fails on demand.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tollgate_testbed::{Fault, FaultProxy, Stopwatch, until};

/// Longer than anything takes here that is not delayed.
const WHILE: Duration = Duration::from_millis(150);

/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(10);

/// A server that sends every byte twice.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut from, mut to) = (&stream, &stream);
                let mut byte = [0];
                while from.read(&mut byte).is_ok_and(|count| count > 0) {
                    if to.write_all(&[byte[0], byte[0]]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn connect(proxy: &FaultProxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).expect("a connection");
    stream.set_nodelay(true).expect("a setting");
    stream
}

/// Sends a byte and says what comes back within that time.
fn ask(mut stream: &TcpStream, patience: Duration) -> Result<[u8; 2], ErrorKind> {
    stream.set_read_timeout(Some(patience)).expect("a setting");
    stream.write_all(b"a").map_err(|error| error.kind())?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).map_err(|error| error.kind())?;
    Ok(answer)
}

#[test]
fn bytes_and_the_end_of_a_stream_pass() {
    let proxy = FaultProxy::start(echo());
    let stream = connect(&proxy);
    assert_eq!(ask(&stream, LONG), Ok(*b"aa"));
    assert_eq!(proxy.connections(), 1);
    let text = [b'x'; 100_000];
    let answer = thread::scope(|scope| {
        let answer = scope.spawn(|| {
            let mut answer = Vec::new();
            (&stream).read_to_end(&mut answer).map(|_| answer)
        });
        (&stream).write_all(&text).expect("a way");
        stream.shutdown(Shutdown::Write).expect("an end");
        answer.join().expect("a reader").expect("an answer")
    });
    assert!(answer.len() == 200_000 && answer.iter().all(|byte| *byte == b'x'));
    drop(stream);
    until("no connection", || (proxy.connections() == 0).then_some(()));
}

#[test]
fn a_half_open_connection_says_nothing_and_is_reset_afterwards() {
    let proxy = FaultProxy::start(echo());
    let (talking, idle) = (connect(&proxy), connect(&proxy));
    assert_eq!(ask(&talking, LONG), Ok(*b"aa"));
    assert_eq!(ask(&idle, LONG), Ok(*b"aa"));

    proxy.set(Fault::Silence);
    assert_eq!(ask(&talking, WHILE), Err(ErrorKind::WouldBlock));
    let late = connect(&proxy);
    assert_eq!(ask(&late, WHILE), Err(ErrorKind::WouldBlock));
    assert_eq!(proxy.connections(), 3);
    drop(connect(&proxy));
    until("three connections", || (proxy.connections() == 3).then_some(()));

    proxy.set(Fault::Pass);
    assert_eq!(ask(&idle, LONG), Ok(*b"aa"), "it lost nothing");
    for lost in [&talking, &late] {
        let error = ask(lost, LONG).expect_err("a reset");
        assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error:?}");
    }
    assert_eq!(ask(&connect(&proxy), LONG), Ok(*b"aa"));
}

#[test]
fn a_silent_network_hides_the_end_of_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxy = FaultProxy::start(listener.local_addr().expect("an address"));
    let mut client = connect(&proxy);
    let (server, _) = listener.accept().expect("a connection");
    proxy.set(Fault::Silence);
    drop(server);
    client.set_read_timeout(Some(WHILE)).expect("a setting");
    let kind = |error: std::io::Error| error.kind();
    assert_eq!(client.read(&mut [0]).map_err(kind), Err(ErrorKind::WouldBlock));
    client.set_read_timeout(Some(LONG)).expect("a setting");
    proxy.set(Fault::Pass);
    assert_eq!(client.read(&mut [0]).map_err(kind), Err(ErrorKind::ConnectionReset));
}

#[test]
fn connections_are_reset_and_refused() {
    let proxy = FaultProxy::start(echo());
    let mut stream = connect(&proxy);
    assert_eq!(ask(&stream, LONG), Ok(*b"aa"));
    for _ in 0..3 {
        proxy.set(Fault::Refuse);
        assert_eq!(proxy.connections(), 0);
        let error = stream.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let error = TcpStream::connect(proxy.address()).expect_err("a refusal");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);

        proxy.set(Fault::Pass);
        stream = connect(&proxy);
        assert_eq!(ask(&stream, LONG), Ok(*b"aa"));
    }
}

#[test]
fn a_client_that_does_not_read_is_reset_too() {
    let proxy = FaultProxy::start(echo());
    let mut stream = connect(&proxy);
    stream.set_write_timeout(Some(WHILE)).expect("a setting");
    while stream.write(&[0; 65_536]).is_ok() {}
    proxy.set(Fault::Refuse);
    assert_eq!(proxy.connections(), 0);
}

#[test]
fn a_server_that_is_not_there_is_a_reset() {
    let nowhere = FaultProxy::start(([127, 0, 0, 1], tollgate_testbed::free_port()).into());
    let error = ask(&connect(&nowhere), LONG).expect_err("a reset");
    assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error:?}");
    until("no connection", || (nowhere.connections() == 0).then_some(()));
}

/// Whether an answer is late by that much, and comes at all.
#[track_caller]
fn check_delay(fault: Fault, delay: Duration) {
    let proxy = FaultProxy::start(echo());
    let stream = connect(&proxy);
    assert_eq!(ask(&stream, LONG), Ok(*b"aa"));
    proxy.set(fault);
    assert_eq!(ask(&stream, delay - delay / 10), Err(ErrorKind::WouldBlock), "{fault:?}");
    let mut answer = [0; 2];
    stream.set_read_timeout(Some(LONG)).expect("a setting");
    (&stream).read_exact(&mut answer).expect("an answer");
    proxy.set(Fault::Pass);
    assert_eq!(ask(&stream, LONG), Ok(*b"aa"), "{fault:?}");
}

#[test]
fn latency_delays_responses() {
    let (none, some) = (Duration::ZERO, Duration::from_millis(400));
    check_delay(Fault::Latency { to_server: some, to_client: none }, some);
    check_delay(Fault::Latency { to_server: none, to_client: some }, some);
    check_delay(Fault::Latency { to_server: some, to_client: some }, 2 * some);
}

#[test]
fn a_narrow_bandwidth_takes_time() {
    let proxy = FaultProxy::start(echo());
    let stream = connect(&proxy);
    proxy.set(Fault::Bandwidth(200));
    let began = Stopwatch::start();
    (&stream).write_all(&[b'a'; 100]).expect("a way");
    let mut answer = [0; 200];
    (&stream).read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, [b'a'; 200]);
    // All of it takes a second at least.
    assert!(began.elapsed() > Duration::from_millis(500), "{:?}", began.elapsed());
}

#[test]
fn delayed_bytes_do_not_delay_those_that_follow() {
    let proxy = FaultProxy::start(echo());
    let stream = connect(&proxy);
    let delay = Duration::from_millis(100);
    proxy.set(Fault::Latency { to_server: delay, to_client: delay });
    // One after the other they would take ten seconds.
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a setting");
    let mut answers = [0; 100];
    let began = Stopwatch::start();
    for piece in 1..=50 {
        (&stream).write_all(b"a").expect("a way");
        // So that it is a separate chunk.
        let its_time = Duration::from_millis(2) * piece;
        until("the time of the next", || (began.elapsed() >= its_time).then_some(()));
    }
    (&stream).read_exact(&mut answers).expect("answers");
}

#[test]
fn nothing_listens_when_it_is_dropped() {
    let proxy = FaultProxy::start(echo());
    let mut stream = connect(&proxy);
    assert_eq!(ask(&stream, LONG), Ok(*b"aa"));
    let address = proxy.address();
    drop(proxy);
    assert_eq!(
        TcpStream::connect(address).map_err(|error| error.kind()).err(),
        Some(ErrorKind::ConnectionRefused)
    );
    assert!(stream.read(&mut [0]).is_err());
}
