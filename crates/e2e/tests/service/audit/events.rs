//! The stream of events, as subscribers receive it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::rules::format_time;
use tollgate::{Clock as _, Micros, Stopwatch, SystemClock};

use super::{call, check, rule, start};
use tollgate_e2e::client::request;
use tollgate_e2e::server::{Server, bearer_admin};
use tollgate_e2e::until;

/// Far longer than any event takes.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);
const EVENTS: &str = "/api/v1/events";
const LAST_CHUNK: &str = "\r\n0\r\n\r\n";
const STREAM: (&str, &str) = ("Accept", "text/event-stream");

/// A client that reads the stream.
struct Subscriber {
    stream: TcpStream,
    heard: String,
    /// How much of it was searched: it may be long.
    searched: usize,
}

impl Subscriber {
    /// Requests the stream; does not read the response yet.
    fn ask(server: &Server) -> Self {
        Self::ask_as(server, bearer_admin())
    }

    fn ask_as(server: &Server, bearer: (&str, &str)) -> Self {
        let mut stream = TcpStream::connect(server.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let ask = request("GET", EVENTS, &[STREAM, bearer], b"");
        stream.write_all(&ask).expect("sent");
        Self { stream, heard: String::new(), searched: 0 }
    }

    /// Requests the stream, and waits until it is subscribed.
    fn new(server: &Server) -> Self {
        Self::new_as(server, bearer_admin())
    }

    fn new_as(server: &Server, bearer: (&str, &str)) -> Self {
        let mut subscriber = Self::ask_as(server, bearer);
        assert!(subscriber.is_admitted(), "{}", subscriber.heard);
        subscriber.until(": listening");
        subscriber
    }

    fn is_admitted(&mut self) -> bool {
        self.until("\r\n\r\n").starts_with("HTTP/1.1 200 OK")
    }

    /// Reads a piece more; false at the end.
    fn read(&mut self) -> bool {
        let mut piece = [0; 65_536];
        let length = self.stream.read(&mut piece).expect("something, or an end");
        self.heard.push_str(&String::from_utf8_lossy(&piece[..length]));
        length > 0
    }

    /// Reads until the words have come; returns all that was read.
    fn until(&mut self, words: &str) -> &str {
        self.until_any(&[words]);
        &self.heard
    }

    /// Reads until one of the words has come since the last call; returns which.
    fn until_any(&mut self, any: &[&str]) -> usize {
        let longest = any.iter().map(|words| words.len()).max().unwrap_or(0);
        let stopwatch = Stopwatch::start();
        loop {
            let from = self.heard.floor_char_boundary(self.searched);
            let found = any.iter().enumerate().filter_map(|(which, words)| {
                Some((self.heard[from..].find(words)? + words.len(), which))
            });
            if let Some((end, which)) = found.min() {
                self.searched = from + end;
                return which;
            }
            self.searched = self.searched.max(self.heard.len().saturating_sub(longest));
            assert!(self.read(), "no {any:?} before the end: {:.2000}", self.heard);
            // Heartbeats go on for ever.
            assert!(stopwatch.elapsed() < EVENT_TIMEOUT, "no {any:?}: {:.2000}", self.heard);
        }
    }
}

#[test]
fn decisions_and_revisions_are_sent_as_they_happen() {
    let server = start("{}", &json!({"rules": [rule("r", 0)]}));
    let mut subscribers = [(); 2].map(|()| Subscriber::new(&server));
    assert!(subscribers[0].heard.contains("content-type: text/event-stream"));
    check(&server, "ann", 1);
    call(&server, "PATCH", "/api/v1/rules/r", r#"{"limit": 1}"#);
    let revision = server.get_as_admin("/api/v1/stats").json()["revision"].clone();
    for subscriber in &mut subscribers {
        let heard = subscriber.until("event: revision");
        assert!(heard.contains("event: decision\ndata: {\"decision_id\":\"d"), "{heard}");
        assert!(
            heard.contains("\"action\":\"refused\",\"rule_id\":\"r\",\"client\":\"ann\""),
            "{heard}"
        );
        subscriber.until(&format!("\"revision\":{revision}"));
    }
}

#[test]
fn the_number_of_subscribers_is_bounded_and_places_are_freed() {
    let server = start("{}", &json!({"rules": []}));
    // One token has a quarter of the places.
    let mut subscribers: Vec<Subscriber> = (0..16).map(|_| Subscriber::new(&server)).collect();
    let refused = server.ask("GET", EVENTS, &[STREAM, bearer_admin()], "");
    let code = refused.code();
    assert_eq!((refused.status, code.as_str()), (429, "too_many_subscribers_of_token"));
    for _ in 0..3 {
        let (_, bearer) = token(&server, &json!({"role": "viewer"}));
        let bearer = ("Authorization", bearer.as_str());
        subscribers.extend((0..16).map(|_| Subscriber::new_as(&server, bearer)));
    }
    let (_, bearer) = token(&server, &json!({"role": "viewer"}));
    let bearer = ("Authorization", bearer.as_str());
    let ask = || server.ask("GET", EVENTS, &[STREAM, bearer], "");
    let refused = ask();
    assert_eq!((refused.status, refused.code().as_str()), (503, "too_many_subscribers"));
    assert_eq!(refused.header("retry-after"), Some("10"));
    subscribers.pop();
    until("a place", || Subscriber::ask_as(&server, bearer).is_admitted().then_some(()));
}

/// Makes a token; returns its id, and the header with it.
fn token(server: &Server, body: &Value) -> (String, String) {
    let made = server.post_as_admin("/api/v1/tokens", &body.to_string());
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    let text = |name: &str| made[name].as_str().expect("a text").to_owned();
    (text("token_id"), format!("Bearer {}", text("token")))
}

#[test]
fn a_token_that_is_revoked_or_expires_loses_its_stream() {
    let server = start("{}", &json!({"rules": [rule("r", 0)]}));
    let soon = SystemClock.now().plus(Micros::from_secs(3));
    let expiring = json!({"role": "viewer", "expires_at": format_time(soon)});
    let (_, expiring) = token(&server, &expiring);
    let (revoked_id, revoked) = token(&server, &json!({"role": "viewer"}));
    let (_, other) = token(&server, &json!({"role": "viewer"}));
    let listen = |bearer: &str| Subscriber::new_as(&server, ("Authorization", bearer));
    let (mut expiring, mut revoked, mut other) =
        (listen(&expiring), listen(&revoked), listen(&other));
    let path = format!("/api/v1/tokens/{revoked_id}");
    assert_eq!(call(&server, "DELETE", &path, "").status, 204);
    revoked.until(LAST_CHUNK);
    check(&server, "ann", 1);
    other.until("event: decision");
    assert!(!revoked.heard.contains("event: decision"), "{}", revoked.heard);
    expiring.until(LAST_CHUNK);
    assert!(SystemClock.now() >= soon, "not before its end");
    check(&server, "bob", 1);
    other.until("bob");
}

#[test]
fn a_client_that_does_not_accept_events_gets_none() {
    let server = start("{}", &json!({"rules": []}));
    for accept in ["*/*", "application/json"] {
        let answer = server.ask("GET", EVENTS, &[("Accept", accept), bearer_admin()], "");
        assert_eq!((answer.status, answer.code().as_str()), (406, "not_acceptable"), "{accept}");
    }
    assert_eq!(server.ask("GET", EVENTS, &[STREAM], "").status, 401);
}

#[test]
fn a_slow_subscriber_gets_an_event_about_missed_events() {
    let server = start("{decisions: off}", &json!({"rules": [rule("r", 0)]}));
    let mut slow = Subscriber::ask(&server);
    let mut quick = Subscriber::new(&server);
    let (user, endpoint) = ("u".repeat(250), "/".repeat(250));
    let one = json!({"identifiers": {"user_id": user}, "endpoint": endpoint});
    let checks = json!({"checks": vec![one; 1_000]}).to_string();
    // Far more than all buffers on the way hold; the server does not wait for the reader.
    for _ in 0..120 {
        assert_eq!(server.post("/api/v1/rate-limit/check/batch", &checks).status, 200);
    }
    slow.until("event: lost\ndata: {\"events\":");
    quick.until("event: decision");
    // It reads on. While it is still behind, it misses changes too, and gets an event about that.
    let hears_change = |limit: u32| {
        call(&server, "PATCH", "/api/v1/rules/r", &json!({"limit": limit}).to_string());
        slow.until_any(&["event: revision", "event: lost"]) == 0
    };
    assert!((1..100).any(hears_change), "always behind");
}

#[test]
fn shutdown_ends_the_stream() {
    let mut server = start("{}", &json!({"rules": []}));
    let mut subscriber = Subscriber::new(&server);
    server.process.signal("TERM");
    while subscriber.read() {}
    assert!(subscriber.heard.ends_with("0\r\n\r\n"), "a clean end: {:?}", subscriber.heard);
    assert!(server.process.end().success());
    assert!(!server.process.errors().contains("cut off"), "{}", server.process.errors());
}

#[test]
fn an_administrator_of_a_tenant_gets_its_decisions_without_rules_of_others() {
    let server = start("{sample_allowed: 0}", &json!({"rules": [rule("shared", 1)]}));
    let made =
        call(&server, "POST", "/api/v1/tokens", r#"{"role":"tenant-admin","tenant":"acme"}"#);
    let token = format!("Bearer {}", made.json()["token"].as_str().expect("a token"));
    let mut operator = Subscriber::new(&server);
    let mut own = Subscriber::new_as(&server, ("Authorization", &token));
    let body = json!({"identifiers": {"user_id": "ann", "tenant": "acme"}}).to_string();
    for _ in 0..2 {
        server.check(&body);
    }
    let heard = own.until("\"identifiers\"");
    assert!(heard.contains("\"rule_id\":null,\"client\":\"ann\""), "{heard}");
    assert!(!heard.contains("shared") && !heard.contains("\"limit\""), "{heard}");
    let heard = operator.until("\"identifiers\"");
    assert!(heard.contains("\"rule_id\":\"shared\"") && heard.contains("\"limit\":1"), "{heard}");
}
