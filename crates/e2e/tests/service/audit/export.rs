//! A whole log as JSON lines, whatever its length, in the memory of a page.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;
use tollgate::{Clock as _, SystemClock, Timestamp};
use tollgate_catalog::{DecisionAction, LoggedDecision, Seed};

use super::{DECISIONS, catalog, wait_for};
use tollgate_e2e::client::request;
use tollgate_e2e::server::{Server, Setup, bearer_admin};
use tollgate_e2e::until;

const LINES: (&str, &str) = ("Accept", "application/x-ndjson");
const COUNT: u64 = 40_000;
/// How long the text of a record is: all of them take far more than the server may.
const WIDTH: usize = 2_000;

fn start() -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let catalog = catalog(folder.path());
    let start = SystemClock.now().as_micros();
    wait_for(async {
        catalog.open(Seed::default(), SystemClock.now(), true).await.expect("a catalog");
        for thousand in 0..COUNT / 1_000 {
            let record = |number: u64| LoggedDecision {
                at: Timestamp::from_micros(start + number),
                decision_id: format!("d00000001-r{number:x}"),
                action: DecisionAction::Refused,
                rule_id: Some("r".to_owned()),
                client: if number.is_multiple_of(4) { "ann" } else { "bob" }.to_owned(),
                tenant: None,
                body: format!("{{\"endpoint\":\"/{}\"}}", "x".repeat(WIDTH)),
            };
            let records: Vec<_> = (thousand * 1_000..(thousand + 1) * 1_000).map(record).collect();
            catalog.log_decisions(&records, u64::MAX).await.expect("kept");
        }
    });
    Server::start_in(folder, &Setup::default())
}

fn lines(server: &Server, path: &str) -> Vec<Value> {
    let answer = server.ask("GET", path, &[LINES, bearer_admin()], "");
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let text = answer.text();
    assert!(text.is_empty() || text.ends_with('\n'), "{path}");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_long_log_is_sent_whole_in_little_memory() {
    let server = start();
    // Once before, so that lasting allocations are made.
    assert_eq!(lines(&server, &format!("{DECISIONS}?limit=1000")).len(), 1_000);
    let before = server.process.peak_memory();
    let all = lines(&server, DECISIONS);
    assert_eq!(all.len() as u64, COUNT);
    let times: Vec<&str> = all.iter().filter_map(|record| record["at"].as_str()).collect();
    assert!(times.is_sorted_by(|a, b| a > b), "the newest first, each once");
    let grown = server.process.peak_memory() - before;
    let size = COUNT * WIDTH as u64;
    // A page, the cache of SQLite, and memory that the allocator has not returned.
    assert!(grown < size / 4, "{grown} bytes more for {size}");

    assert_eq!(lines(&server, &format!("{DECISIONS}?client=ann")).len() as u64, COUNT / 4);
    assert_eq!(lines(&server, &format!("{DECISIONS}?limit=7")).len(), 7);
    assert_eq!(lines(&server, &format!("{DECISIONS}?client=unknown")), Vec::<Value>::new());
    let after = format!("{DECISIONS}?before={}.x", Timestamp::from_secs(1).as_micros());
    assert_eq!(lines(&server, &after), Vec::<Value>::new());
    let changes = lines(&server, "/api/v1/audit");
    assert_eq!(changes, super::records(&server, "/api/v1/audit?limit=1000"));
}

#[test]
fn exports_that_are_not_read_are_bounded() {
    let server = start();
    let ask = request("GET", DECISIONS, &[LINES, bearer_admin()], b"");
    let begin = || {
        let mut stream = TcpStream::connect(server.address).expect("a connection");
        stream.write_all(&ask).expect("sent");
        let mut beginning = [0; 12];
        stream.read_exact(&mut beginning).expect("a status");
        (String::from_utf8_lossy(&beginning).into_owned(), stream)
    };
    let unread: Vec<(String, TcpStream)> = (0..9).map(|_| begin()).collect();
    let statuses: Vec<&str> = unread.iter().map(|(status, _)| &status[9..]).collect();
    assert_eq!(statuses, [["200"; 8].as_slice(), &["503"]].concat());
    drop(unread);
    until("room for another", || {
        let answer = server.ask("GET", "/api/v1/audit", &[LINES, bearer_admin()], "");
        (answer.status == 200).then_some(())
    });
}
