//! Regressions between client and upstream that a security review found.

use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use tollgate::Stopwatch;

use crate::gateway::{Gateway, NO_RULES};
use crate::raw::{RawUpstream, field};
use crate::socket::Socket;
use crate::upstream::Upstream;
use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::program::curl_from;
use tollgate_e2e::until;

const ASK: &[u8] = b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_body_in_chunks_arrives_whatever_the_method() {
    let upstream = RawUpstream::echo();
    let gateway = Gateway::before(upstream.address);
    for method in ["GET", "HEAD", "DELETE", "OPTIONS", "POST"] {
        let request = format!(
            "{method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        );
        let answer = gateway.connect().ask(request.as_bytes());
        let head = upstream.heads().pop().expect("a head");
        assert_eq!(field(&head, "transfer-encoding"), Some("chunked"), "{head}");
        let is_seen = method == "HEAD" || answer.text().starts_with(&format!("3 {method} /"));
        assert!(is_seen, "{method}: {answer:?}");
    }
}

#[test]
fn an_empty_body_has_a_content_length() {
    let upstream = RawUpstream::echo();
    let gateway = Gateway::before(upstream.address);
    let check = |method: &str, line: &str, expected: Option<&str>| {
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n{line}\r\n");
        assert_eq!(gateway.connect().ask(request.as_bytes()).status, 200);
        let head = upstream.heads().pop().expect("a head");
        assert_eq!(field(&head, "content-length"), expected, "{head}");
    };
    for method in ["POST", "PUT", "PATCH"] {
        check(method, "Content-Length: 0\r\n", Some("0"));
        check(method, "", Some("0"));
    }
    for method in ["GET", "DELETE", "BREW"] {
        check(method, "Content-Length: 0\r\n", Some("0"));
        check(method, "", None);
    }
}

#[test]
fn a_full_upstream_does_not_keep_a_request_from_an_equal_one() {
    let [first, second] = [(); 2].map(|()| Upstream::start());
    let urls = [&first, &second].map(|upstream| format!("http://{}", upstream.address));
    let gateway = Gateway::start(NO_RULES, "gateway: {requests: 1, connect_timeout: 20s}", &urls);
    let hang = || {
        let mut socket = Socket::open(gateway.address);
        socket.send(ASK);
        socket
    };
    let stopwatch = Stopwatch::start();
    let _hangs_at_first = hang();
    until("the request", || (!first.seen().is_empty()).then_some(()));
    for _ in 0..4 {
        assert_eq!(gateway.get("/").status, 200);
    }
    assert_eq!((first.seen().len(), second.seen().len()), (1, 4));
    assert!(stopwatch.elapsed() < Duration::from_secs(20), "a request has waited");

    // If all are full, the first that is free is used.
    let hangs_at_second = hang();
    until("the request", || (second.seen().len() == 5).then_some(()));
    thread::scope(|scope| {
        let waiting = [(); 2].map(|()| scope.spawn(|| gateway.get("/").status));
        drop(hangs_at_second);
        for status in waiting {
            assert_eq!(status.join().expect("an answer"), 200);
        }
    });
}

/// An open connection is used, whether or not another one can be made.
#[test]
fn connections_that_are_there_are_used_while_new_ones_fail() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let may_answer = Arc::new(AtomicBool::new(false));
    let is_asked = Arc::new(AtomicBool::new(false));
    let (leave, asked) = (Arc::clone(&may_answer), Arc::clone(&is_asked));
    let upstream = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        // No further connections are accepted.
        drop(listener);
        let mut stream = BufReader::new(stream);
        let mut heads = 0;
        while let Some(()) = read_head(&mut stream) {
            heads += 1;
            asked.store(true, Ordering::SeqCst);
            until("leave to answer", || leave.load(Ordering::SeqCst).then_some(()));
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            io::Write::write_all(stream.get_mut(), answer).expect("sent");
        }
        heads
    });
    let gateway = Gateway::with_settings("gateway: {idle_timeout: 1h}", address);
    let mut first = gateway.connect();
    first.send(&request("GET", "/", &[], b"")).expect("sent");
    until("the first request", || is_asked.load(Ordering::SeqCst).then_some(()));
    assert_eq!(gateway.get("/").code(), "upstream_unreachable");
    may_answer.store(true, Ordering::SeqCst);
    assert_eq!(first.answer().expect("an answer").status, 200);
    for _ in 0..3 {
        assert_eq!(first.ask(&request("GET", "/", &[], b"")).status, 200);
    }
    drop(gateway);
    assert_eq!(upstream.join().expect("an upstream"), 4);
}

fn read_head(stream: &mut BufReader<TcpStream>) -> Option<()> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if io::BufRead::read_line(stream, &mut head).ok()? == 0 {
            return None;
        }
    }
    Some(())
}

#[test]
fn one_failed_connection_does_not_exclude_the_only_upstream() {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let gateway = Gateway::before(address);
    assert_eq!(gateway.get("/").code(), "upstream_unreachable");
    let listener = TcpListener::bind(address).expect("the port");
    let upstream = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        let mut stream = BufReader::new(stream);
        read_head(&mut stream).expect("a request");
        let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
        io::Write::write_all(stream.get_mut(), answer).expect("sent");
    });
    assert_eq!(gateway.get("/").status, 204);
    drop(gateway);
    upstream.join().expect("an upstream");
}

/// Fields that rules trust from proxies must not come from a client.
#[test]
fn fields_that_only_proxies_may_write_are_not_forwarded() {
    let upstream = RawUpstream::echo();
    let settings = "identity: {trusted_proxies: [127.0.0.2], client_ip_header: CF-Connecting-IP, \
                    tenant_header: X-Tenant, tier_header: X-Tier}";
    let gateway = Gateway::with_settings(settings, upstream.address);
    let claims =
        ["CF-Connecting-IP: 192.0.2.1", "X-Tenant: acme", "X-Tier: gold", "X_Tenant: acme"];
    let claims = claims.map(|claim| ["--header", claim]).concat();
    let check = |client: &str, expected: [Option<&str>; 3]| {
        assert_eq!(curl_from(client, &gateway.url("/"), &claims).status, 200);
        let head = upstream.heads().pop().expect("a head");
        let seen = ["cf-connecting-ip", "x-tenant", "x-tier"].map(|name| field(&head, name));
        assert_eq!(seen, expected, "{client}: {head}");
        assert_eq!(field(&head, "x_tenant"), None, "{head}");
    };
    check("127.0.0.9", [None, None, None]);
    check("127.0.0.2", [Some("192.0.2.1"), Some("acme"), Some("gold")]);
}

/// The timeout was once nearly doubled: a piece of the body restarted it after it had expired.
#[test]
fn the_response_timeout_begins_with_the_last_piece_of_the_body() {
    let upstream = Upstream::start();
    let gateway = Gateway::with_settings("gateway: {response_timeout: 4s}", upstream.address);
    let stopwatch = Stopwatch::start();
    let answer = gateway.ask("POST", "/hang", &[], b"body");
    assert_eq!(answer.code(), "upstream_timeout");
    let took = stopwatch.elapsed();
    assert!(took >= Duration::from_secs(4) && took < Duration::from_secs(7), "{took:?}");
}

/// An upstream that is the gateway itself.
#[test]
fn a_request_that_loops_back_to_its_gateway_is_refused() {
    for settings in ["", "identity: {trusted_proxies: []}"] {
        let gateway_address = Arc::<OnceLock<SocketAddr>>::default();
        let address = Arc::clone(&gateway_address);
        let relay = RawUpstream::start(move |wire| {
            let to = address.get().expect("a gateway that has started");
            while let Some(head) = wire.head() {
                let answer = Connection::open(*to).ask(head.as_bytes());
                let (status, text) = (answer.status, answer.text());
                let fields = "Content-Type: application/problem+json\r\nContent-Length";
                let length = text.len();
                wire.say(&format!("HTTP/1.1 {status} Again\r\n{fields}: {length}\r\n\r\n{text}"));
            }
        });
        let gateway = Gateway::with_settings(settings, relay.address);
        gateway_address.set(gateway.address).expect("set once");
        let answer = gateway.get("/");
        assert_eq!((answer.status, answer.code().as_str()), (508, "loop_detected"));
        assert!((2..20).contains(&relay.heads().len()), "{}", relay.heads().len());
        assert_eq!(gateway.failures("loop_detected"), 1);
    }
}
