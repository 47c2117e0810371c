//! Load at a constant rate, timed from when a request was due, not from when it was sent: a server
//! that stalls makes later requests late too, and they count.
//!
//! The client polls without a pause. It has its own processor, and timers are too coarse for
//! a request every few microseconds.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tollgate::Stopwatch;

use super::wrk::CONNECTIONS;
use crate::Fallible;
use crate::peers::LIMIT;

/// Part of every expected response: the limit of [`LIMIT`].
const ADMITTED_BY: &str = "\"limit\":1000000000";
const _: () = assert!(LIMIT == 1_000_000_000);

/// Part of a response that was made without the shared store.
const DEGRADED: &str = "\"degraded\":";

/// What to send, and how often.
#[derive(Args, Clone, Debug)]
pub(crate) struct Pace {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    /// A file of bodies, one to a line.
    pub(crate) bodies: PathBuf,
    pub(crate) per_second: f64,
    pub(crate) seconds: f64,
}

/// Microseconds from when a request was due to its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    /// The share of responses that were made without the shared store.
    pub(crate) degraded: f64,
}

/// Sends on schedule until all requests have a response.
pub(crate) fn pace(pace: &Pace) -> Fallible<Delays> {
    pace_over(pace, CONNECTIONS)
}

/// Sends one request and makes sure that it is admitted, by a rule of the limit that is meant.
pub(super) fn probe(address: SocketAddr, path: &str, bodies: &Path) -> Fallible<()> {
    let (path, bodies) = (path.to_owned(), bodies.to_owned());
    let once = Pace { address, path, bodies, per_second: 1.0, seconds: 1.0 };
    pace_over(&once, 1).map(drop)
}

fn pace_over(pace: &Pace, connections: usize) -> Fallible<Delays> {
    let requests = requests(pace)?;
    let total = (pace.per_second * pace.seconds).ceil() as usize;
    let due = |number: usize| Duration::from_secs_f64(number as f64 / pace.per_second);
    let mut idle = Vec::with_capacity(connections);
    for _ in 0..connections {
        idle.push(Connection::open(pace.address)?);
    }
    let mut busy: Vec<Connection> = Vec::with_capacity(connections);
    let mut delays = Vec::with_capacity(total);
    let (mut sent, mut degraded) = (0, 0);
    let stopwatch = Stopwatch::start();
    while delays.len() < total {
        while sent < total && due(sent) <= stopwatch.elapsed() {
            let Some(mut connection) = idle.pop() else { break };
            connection.send(&requests[sent % requests.len()], due(sent))?;
            busy.push(connection);
            sent += 1;
        }
        let mut place = 0;
        while place < busy.len() {
            if busy[place].is_answered()? {
                let connection = busy.swap_remove(place);
                delays.push(stopwatch.elapsed() - connection.due);
                degraded += usize::from(is_degraded(&connection.answer));
                idle.push(connection);
            } else {
                place += 1;
            }
        }
    }
    delays.sort_unstable();
    let at = |share| percentile(&delays, share).as_secs_f64() * 1e6;
    let degraded = degraded as f64 / total as f64;
    Ok(Delays { p50: at(0.5), p99: at(0.99), p999: at(0.999), degraded })
}

fn requests(pace: &Pace) -> Fallible<Vec<String>> {
    let (path, address) = (&pace.path, pace.address);
    let bodies = fs::read_to_string(&pace.bodies)?;
    let request = |body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let requests: Vec<String> = bodies.lines().map(request).collect();
    if requests.is_empty() { Err("there is nothing to send".into()) } else { Ok(requests) }
}

/// The delay that this share of all is not above.
fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

/// One request at a time.
struct Connection {
    stream: TcpStream,
    due: Duration,
    answer: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> Fallible<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, due: Duration::ZERO, answer: Vec::new() })
    }

    fn send(&mut self, request: &str, due: Duration) -> Fallible<()> {
        self.due = due;
        self.answer.clear();
        // There is always room for one request.
        Ok(self.stream.write_all(request.as_bytes())?)
    }

    fn is_answered(&mut self) -> Fallible<bool> {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => Err("the server hung up".into()),
            Ok(read) => {
                self.answer.extend_from_slice(&piece[..read]);
                is_whole(&self.answer)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a response is complete. Anything but an admission is an error: it would be measured as a fast one.
fn is_whole(answer: &[u8]) -> Fallible<bool> {
    let answer = str::from_utf8(answer)?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return Ok(false) };
    let length = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    let length: usize = length.ok_or("an answer does not say how long it is")?.parse()?;
    if body.len() < length {
        return Ok(false);
    }
    let is_admitted = body.contains("\"allowed\":true") && body.contains(ADMITTED_BY);
    if head.starts_with("HTTP/1.1 200 ") && is_admitted {
        Ok(true)
    } else {
        Err(format!("a check was not admitted, or by no rule: {answer}").into())
    }
}

fn is_degraded(answer: &[u8]) -> bool {
    str::from_utf8(answer).is_ok_and(|answer| answer.contains(DEGRADED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    const BODY: &str = r#"{"allowed":true,"limit":1000000000}"#;

    #[test]
    fn an_answer_is_whole_when_its_body_is() {
        let check = |answer: &str, expected: Option<bool>| {
            assert_eq!(is_whole(answer.as_bytes()).ok(), expected, "{answer}");
        };
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 35\r\n\r\n";
        check("", Some(false));
        check("HTTP/1.1 200 OK\r\ncontent-length: 35\r\n", Some(false));
        check(&format!("{head}{{\"allowed\":"), Some(false));
        check(&format!("{head}{BODY}"), Some(true));
        check(&format!("{head}{}", BODY.replace("true", "none")), None);
        check(&format!("{head}{}", BODY.replace("1000000000", "null      ")), None);
        check(&format!("{}{BODY}", head.replace("200", "500")), None);
        check(&format!("HTTP/1.1 200 OK\r\n\r\n{BODY}"), None);
    }

    #[test]
    fn answers_say_if_a_store_had_no_part_in_them() {
        assert!(!is_degraded(BODY.as_bytes()));
        assert!(is_degraded(BODY.replace('}', r#","degraded":"timeout"}"#).as_bytes()));
    }

    #[test]
    fn a_percentile_is_the_least_that_is_enough() {
        let check = |count: u64, share: f64, expected: u64| {
            let sorted: Vec<_> = (1..=count).map(Duration::from_secs).collect();
            assert_eq!(percentile(&sorted, share), Duration::from_secs(expected));
        };
        check(100, 0.5, 50);
        check(100, 0.99, 99);
        check(1_000, 0.999, 999);
        check(1, 0.999, 1);
        check(0, 0.5, 0);
    }

    /// Responds to one request after the other, each after a pause.
    fn serve_slowly(mut stream: TcpStream, pause: Duration) {
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
        while stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
            thread::sleep(pause);
            if stream.write_all(answer.as_bytes()).is_err() {
                break;
            }
        }
    }

    #[test]
    fn waiting_for_the_requests_before_it_makes_a_request_late() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            serve_slowly(stream, Duration::from_millis(5));
        });
        let directory = tempfile::tempdir().expect("a directory");
        let bodies = directory.path().join("bodies");
        fs::write(&bodies, "{}\n").expect("a file");
        let (path, per_second, seconds) = ("/".to_owned(), 1_000.0, 0.04);
        let plan = Pace { address, path, bodies, per_second, seconds };
        let delays = pace_over(&plan, 1).expect("answers");
        // The twentieth of forty is due after 19 ms and gets its response after 100 ms at the earliest.
        assert!(delays.p50 >= 81_000.0, "{delays:?}");
        assert!(delays.p50 <= delays.p99 && delays.p99 <= delays.p999, "{delays:?}");
    }
}
