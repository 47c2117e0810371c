//! Rules that change under load.

use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::server::{AUTHORIZE, CHECK, JSON, PEEK, Server, Setup};
use tollgate_e2e::{beside, until};

fn rules(limit: u32) -> String {
    format!(
        "rules: [{{rule_id: per_user, limit: {limit}, window: 300d, identifier_type: user_id}}]"
    )
}

const ALICE: &str = r#"{"identifiers":{"user_id":"alice"}}"#;
const BROKEN: &str =
    "rules: [{rule_id: per_user, limit: lots, window: 1h, identifier_type: user_id}]";

/// Sends checks without a pause while `act` runs; every response has to be a decision.
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
    // The figure is counted before the line is written.
    until("the problem in the log", || {
        let log = server.process.errors();
        (log.contains("the last good ones stay in force") && log.contains("lots")).then_some(())
    });

    // SIGHUP reloads at once.
    fs::write(server.rules_file(), rules(6)).expect("written");
    server.process.signal("HUP");
    until("the rules after a signal", || (limit_and_remaining(&server) == (6, 6)).then_some(()));
    assert_eq!(server.get_as_admin("/api/v1/rules").json()["rules"][0]["limit"], 6);
}

#[test]
fn api_keys_in_broken_rules_stay_out_of_the_log() {
    let server = Server::with_rules(&rules(5));
    let whitelist = "whitelist: [{identifier_type: api_key, identifier: sk_live_1, expires_at: x}]";
    fs::write(server.rules_file(), format!("{}\n{whitelist}\n", rules(5))).expect("written");
    server.process.signal("HUP");
    let log = until("word of the broken file", || {
        Some(server.process.errors()).filter(|log| log.contains("= help: "))
    });
    assert!(log.contains("whitelist[0].expires_at") && log.contains(":2:"), "{log}");
    assert!(!log.contains("sk_live"), "{log}");
}

#[test]
fn a_failed_fetch_of_keys_is_logged_once() {
    // Accepts connections, and never responds.
    let issuer = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = issuer.local_addr().expect("an address");
    let settings = format!("identity: {{jwt: {{jwks_url: 'http://{address}/keys?secret=hush'}}}}");
    let first = rules(5);
    let setup = Setup { rules: Some(&first), settings: &settings, ..Setup::default() };
    let server = Server::start(&setup);
    // {"alg":"ES256","kid":"a"}, {}, and an invalid signature.
    let token = ("Authorization", "Bearer eyJhbGciOiJFUzI1NiIsImtpZCI6ImEifQ.e30.AAAA");
    let target = [("X-Original-URI", "/orders"), ("X-Original-Method", "GET")];
    let answer = server.ask("GET", AUTHORIZE, &[&[token][..], &target].concat(), "");
    assert_eq!(answer.status, 200, "an unverified token identifies no client: {answer:?}");
    let told = "the keys of tokens cannot be fetched: ";
    until("a log line about the keys", || server.process.errors().contains(told).then_some(()));
    // A change of the rules takes two polls of the file, and each of them checks the keys too.
    fs::write(server.rules_file(), rules(6)).expect("written");
    until("two more polls", || server.process.errors().contains("rules loaded").then_some(()));
    let log = server.process.errors();
    assert_eq!(log.matches(told).count(), 1, "{log}");
    assert!(!log.contains("hush"), "{log}");
}
