//! The secret of a fleet is introduced and changed node by node, while the others go on counting with all of them.

use serde_json::{Value, json};
use tollgate_e2e::process::Process;
use tollgate_e2e::server::{Server, Setup, command};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis};

use crate::nodes::check_of;

const REFUND: &str = "/api/v1/rate-limit/refund";
const SECRET: &str = "TOLLGATE_FLEET_SECRET";
const PREVIOUS: &str = "TOLLGATE_FLEET_PREVIOUS_SECRET";
const OLD: &str = "old-0123456789abcdef0123456789abcdef";
const NEW: &str = "new-0123456789abcdef0123456789abcdef";
/// Without the store, every check is refused, so that a check that is allowed was counted there.
const RULES: &str = "rules: [{rule_id: per_user, limit: 1000, window: 300d, identifier_type: user_id, on_store_failure: closed}]";
const SETTINGS: &str = "{store_failure: {deadline: 5s}, deny_cache: 0s}";

/// A store, and how tests read its mark.
pub(crate) trait Marked {
    fn url(&self) -> String;
    fn mark(&self) -> String;
    /// Whether the mark expires.
    fn is_ending(&self) -> bool;
    /// Lets the time pass after which a mark expires that no node renews.
    fn expire(&self);
    fn pause(&self);
    fn resume(&self);
    /// Removes everything that it has.
    fn lose_data(&self);
    /// Whether counters start anew with another secret, since their names are hashed with it.
    fn starts_anew(&self) -> bool;
}

impl Marked for Redis {
    fn url(&self) -> String {
        Self::url(self)
    }

    fn mark(&self) -> String {
        self.command(&["GETRANGE", "tg:fleet", "0", "99"]).text().to_owned()
    }

    fn is_ending(&self) -> bool {
        let left = self.command(&["PTTL", "tg:fleet"]).integer();
        assert!(left <= 20_000, "{left}");
        left >= 0
    }

    fn expire(&self) {
        self.command(&["PEXPIRE", "tg:fleet", "1"]);
    }

    fn pause(&self) {
        Self::pause(self);
    }

    fn resume(&self) {
        Self::resume(self);
    }

    fn lose_data(&self) {
        self.command(&["FLUSHALL"]);
    }

    fn starts_anew(&self) -> bool {
        true
    }
}

impl Marked for Postgres {
    fn url(&self) -> String {
        Self::url(self)
    }

    fn mark(&self) -> String {
        self.query("SELECT state FROM tollgate_counters WHERE name = 'fleet'")
    }

    fn is_ending(&self) -> bool {
        let left =
            "SELECT expires_at < 9223372036854775807 FROM tollgate_counters WHERE name = 'fleet'";
        self.query(left) == "t"
    }

    fn expire(&self) {
        self.query("UPDATE tollgate_counters SET expires_at = 1 WHERE name = 'fleet'");
    }

    fn pause(&self) {
        Self::pause(self);
    }

    fn resume(&self) {
        Self::resume(self);
    }

    fn lose_data(&self) {
        self.query("DELETE FROM tollgate_counters");
    }

    fn starts_anew(&self) -> bool {
        false
    }
}

/// A fleet, and how many checks it has admitted.
struct Rolling {
    url: String,
    admitted: u64,
}

impl Rolling {
    fn new(store: &dyn Marked) -> Self {
        Self { url: store.url(), admitted: 0 }
    }

    fn setup<'a>(arguments: &'a [&'a str], secrets: &'a [(&'a str, &'a str)]) -> Setup<'a> {
        Setup { rules: Some(RULES), settings: SETTINGS, arguments, environment: secrets }
    }

    fn start(&self, secrets: &[(&str, &str)]) -> Server {
        Server::start(&Self::setup(&["--store", &self.url], secrets))
    }

    fn is_refused(&self, secrets: &[(&str, &str)]) {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ["--store", self.url.as_str()];
        let mut process =
            Process::start(&mut command(&Self::setup(&arguments, secrets), folder.path()));
        assert_eq!(process.end().code(), Some(2), "{}", process.errors());
        assert!(process.errors().contains("belongs to another fleet"), "{}", process.errors());
    }

    /// Checks at all nodes that they count together, and returns a decision of the last.
    fn count(&mut self, nodes: &[&Server]) -> Value {
        let mut last = Value::Null;
        for node in nodes {
            last = node.check(&check_of("per_user", "alice"));
            self.admitted += 1;
            assert_eq!(last["remaining"], json!(1000 - self.admitted), "{}: {last}", self.url);
        }
        last
    }

    /// A node refunds a decision that another made.
    fn refund(&mut self, node: &Server, decision: &Value) {
        let id = json!({ "decision_id": decision["decision_id"] });
        let refunded = node.post_as_admin(REFUND, &id.to_string());
        assert_eq!(refunded.status, 200, "{}: {refunded:?}", self.url);
        self.admitted -= 1;
    }
}

/// Waits until nodes count with the secret that they have.
fn until_marked(nodes: &[&Server]) {
    let line = "the store is marked with the fleet's secret";
    for node in nodes {
        until("a line", || node.process.errors().contains(line).then_some(()));
    }
}

#[test]
fn a_first_secret_is_introduced_node_by_node() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    for store in [&redis as &dyn Marked, &postgres] {
        let mut fleet = Rolling::new(store);
        let (a, b) = (fleet.start(&[]), fleet.start(&[]));
        fleet.count(&[&a, &b]);
        a.stop();
        let a = fleet.start(&[(SECRET, NEW)]);
        fleet.count(&[&a, &b, &a]);
        assert_eq!(store.mark(), "none");
        let line = "nodes without a secret count in the store";
        until("a line", || a.process.errors().contains(line).then_some(()));
        b.stop();
        let b = fleet.start(&[(SECRET, NEW)]);
        fleet.count(&[&b, &a]);
        assert!(store.is_ending(), "no node renews it");
        store.expire();
        until("the new mark", || (!["none", ""].contains(&store.mark().as_str())).then_some(()));
        assert!(!store.is_ending());
        until_marked(&[&a, &b]);
        if store.starts_anew() {
            fleet.admitted = 0;
        }
        let decision = fleet.count(&[&a, &b]);
        fleet.refund(&a, &decision);
        fleet.count(&[&a, &b]);
        fleet.is_refused(&[]);
        for node in [&a, &b] {
            assert!(!node.process.errors().contains("belongs to another"), "{}", fleet.url);
        }
    }
}

#[test]
fn a_secret_is_changed_node_by_node() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let oldest = Redis::builder().oldest().start();
    for store in [&redis as &dyn Marked, &oldest, &postgres] {
        let mut fleet = Rolling::new(store);
        let (a, b) = (fleet.start(&[(SECRET, OLD)]), fleet.start(&[(SECRET, OLD)]));
        let first = fleet.count(&[&b, &a]);
        let (mark, both) = (store.mark(), [(SECRET, NEW), (PREVIOUS, OLD)]);
        fleet.is_refused(&[(SECRET, NEW)]);
        a.stop();
        let a = fleet.start(&both);
        // Each node opens what the other seals.
        let of_a = fleet.count(&[&b, &a]);
        fleet.refund(&b, &of_a);
        let of_b = fleet.count(&[&a, &b]);
        fleet.refund(&a, &of_b);
        // The mark of the old secret stays while a node knows only that one.
        until("an end", || store.is_ending().then_some(()));
        until("no end", || (!store.is_ending()).then_some(()));
        assert_eq!(store.mark(), mark);
        b.stop();
        let b = fleet.start(&both);
        fleet.count(&[&a, &b]);
        until("an end", || store.is_ending().then_some(()));
        store.expire();
        until("the new mark", || {
            (![mark.as_str(), ""].contains(&store.mark().as_str())).then_some(())
        });
        until_marked(&[&a, &b]);
        if store.starts_anew() {
            fleet.admitted = 0;
            let id = json!({ "decision_id": first["decision_id"] }).to_string();
            let refused = b.post_as_admin(REFUND, &id);
            assert_eq!(refused.code(), "window_ended", "its counters started anew: {refused:?}");
        } else {
            fleet.refund(&b, &first);
        }
        let of_a = fleet.count(&[&b, &a]);
        fleet.refund(&b, &of_a);
        // The old secret is removed.
        fleet.is_refused(&[(SECRET, OLD)]);
        b.stop();
        let b = fleet.start(&[(SECRET, NEW)]);
        let of_a = fleet.count(&[&b, &a]);
        fleet.refund(&b, &of_a);
        let old =
            b.post_as_admin(REFUND, &json!({ "decision_id": first["decision_id"] }).to_string());
        assert_eq!((old.status, old.code().as_str()), (422, "invalid_decision_id"), "{old:?}");
    }
}
