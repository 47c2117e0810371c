//! Rules that change while the server is asked.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::client::{Connection, request};
use crate::support::server::{CHECK, JSON, PEEK, Server};
use crate::support::{beside, until};

fn rules(limit: u32) -> String {
    format!(
        "rules: [{{rule_id: per_user, limit: {limit}, window: 300d, identifier_type: user_id}}]"
    )
}

const ALICE: &str = r#"{"identifiers":{"user_id":"alice"}}"#;
const BROKEN: &str =
    "rules: [{rule_id: per_user, limit: lots, window: 1h, identifier_type: user_id}]";

/// Asks without pause while `act` runs; every answer has to be a good one.
fn under_load(server: &Server, act: impl FnOnce()) {
    let crowd = request("POST", CHECK, &[JSON], br#"{"identifiers":{"user_id":"crowd"}}"#);
    let ask = |is_over: &AtomicBool| {
        let mut connection = Connection::open(server.address);
        while !is_over.load(Ordering::Relaxed) {
            let answer = connection.ask(&crowd);
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.json()["rule_id"], "per_user", "a rule is always in force");
        }
    };
    beside(4, ask, act);
}

fn limit_and_remaining(server: &Server) -> (u64, u64) {
    let answer = server.post(PEEK, ALICE).json();
    let number = |name: &str| answer[name].as_u64().expect("a number");
    (number("limit"), number("remaining"))
}

#[test]
fn changed_rules_take_effect_under_load_and_counters_survive() {
    let server = Server::with_rules(&rules(5));
    for _ in 0..3 {
        server.check(ALICE);
    }
    assert_eq!(limit_and_remaining(&server), (5, 2));
    under_load(&server, || {
        let new = server.folder().join("new.yaml");
        fs::write(&new, rules(10)).expect("written");
        fs::rename(&new, server.rules_file()).expect("replaced");
        until("the file that took the place of the old one", || {
            (limit_and_remaining(&server) == (10, 7)).then_some(())
        });
        fs::write(server.rules_file(), rules(4)).expect("written");
        until("the file that was written over", || {
            (limit_and_remaining(&server) == (4, 1)).then_some(())
        });
    });
}

#[test]
fn broken_rules_leave_the_last_good_ones_in_force() {
    let server = Server::with_rules(&rules(5));
    under_load(&server, || {
        fs::write(server.rules_file(), BROKEN).expect("written");
        until("word of the broken file", || {
            (server.figure("tollgate_config_errors_total") >= 1.0).then_some(())
        });
    });
    assert_eq!(limit_and_remaining(&server), (5, 5));
    assert_eq!(server.get("/health/ready").status, 200);
    let log = server.process.errors();
    assert!(log.contains("the last good ones stay in force") && log.contains("lots"), "{log}");

    // Told to, it does not wait until it notices by itself.
    fs::write(server.rules_file(), rules(6)).expect("written");
    server.process.signal("HUP");
    until("the rules after a signal", || (limit_and_remaining(&server) == (6, 6)).then_some(()));
    assert_eq!(server.get_as_admin("/api/v1/rules").json()["rules"][0]["limit"], 6);
}
