//! Nodes with one catalog, clients that keep sending checks, and a pair of rules that always change
//! together.

use std::env;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate::Stopwatch;

use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{CHECK, JSON, Server, Setup, bearer_admin};
use tollgate_e2e::{beside, until};

/// How soon a change is in force everywhere.
pub(crate) const SOON: Duration = Duration::from_secs(1);
/// What a machine that runs other tests too may add.
pub(crate) const SLACK: Duration = Duration::from_secs(3);

const ALICE: &str = r#"{"identifiers":{"user_id":"alice"},"endpoint":"/","method":"GET"}"#;

/// How many rounds there is time for.
pub(crate) fn rounds(usual: usize, soak: usize) -> usize {
    if env::var_os("TOLLGATE_SOAK_PROPAGATION").is_some() { soak } else { usual }
}

/// Nodes that share a catalog, each with a folder that outlives it.
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Server>,
    _folders: Vec<TempDir>,
}

impl Fleet {
    pub(crate) fn start(count: usize, catalog: &str, store: &str) -> Self {
        let folders: Vec<TempDir> =
            (0..count).map(|_| tempfile::tempdir().expect("a folder")).collect();
        let nodes = folders.iter().map(|folder| node(catalog, store, folder)).collect();
        let fleet = Self { nodes, _folders: folders };
        // No other rules apply.
        let begun = put(&fleet.nodes[0], "/api/v1/policy?prune=rules", &pair(1_000_000));
        Written(begun).expect_ok();
        fleet.until_all_have(1_000_000);
        fleet
    }

    /// Sets both rules of the pair by one call to one of the nodes.
    pub(crate) fn write(&self, node: usize, limit: u64) -> Written {
        Written(put(&self.nodes[node], "/api/v1/policy", &pair(limit)))
    }

    /// Waits until each node applies that limit; returns how long that took.
    pub(crate) fn until_all_have(&self, limit: u64) -> Duration {
        let stopwatch = Stopwatch::start();
        for node in &self.nodes {
            until("the new limit", || (limits(&node.check(ALICE)) == [limit; 2]).then_some(()));
        }
        stopwatch.elapsed()
    }

    /// Runs two clients for each node while `act` runs. Every response has to be a decision by both
    /// rules of the pair, at the same revision. Returns how many there were.
    pub(crate) fn under_load(&self, act: impl FnOnce()) -> usize {
        let seen = Mutex::new(0);
        let next = std::sync::atomic::AtomicUsize::new(0);
        let ask = |is_over: &AtomicBool| {
            let node = &self.nodes[next.fetch_add(1, Ordering::Relaxed) % self.nodes.len()];
            let mut connection = node.connect();
            let request = tollgate_e2e::client::request("POST", CHECK, &[JSON], ALICE.as_bytes());
            let mut answers = 0;
            while !is_over.load(Ordering::Relaxed) {
                let answer = connection.ask(&request);
                assert_eq!(answer.status, 200, "{answer:?}");
                let told = answer.json();
                let [one, other] = limits(&told);
                assert_eq!(one, other, "decided by a mixture: {told}");
                assert_eq!(told["allowed"], true, "{told}");
                answers += 1;
            }
            *seen.lock().expect("no thread panicked") += answers;
        };
        beside(2 * self.nodes.len(), ask, act);
        seen.into_inner().expect("no thread panicked")
    }
}

/// A node in its own folder.
pub(crate) fn node(catalog: &str, store: &str, folder: &TempDir) -> Server {
    node_with(catalog, store, folder.path(), &[])
}

/// A node in its own folder, with variables.
pub(crate) fn node_with(
    catalog: &str,
    store: &str,
    folder: &Path,
    environment: &[(&str, &str)],
) -> Server {
    let copy = folder.join("copy.db");
    let copy = copy.to_str().expect("a path of text");
    let mut arguments = vec!["--catalog", catalog, "--store", store];
    if catalog.starts_with("postgres") {
        arguments.extend(["--catalog-copy", copy]);
    }
    // Tests exceed the default limit of writes.
    let settings = "{limits: {admin_writes_per_minute: 100000, admin_reads_per_minute: 100000}, \
                    store_failure: {deadline: 5s}}";
    Server::start(&Setup { settings, arguments: &arguments, environment, ..Setup::default() })
}

/// The response to a write.
pub(crate) struct Written(pub(crate) Answer);

impl Written {
    pub(crate) fn expect_ok(&self) {
        assert_eq!(self.0.status, 200, "{:?}", self.0);
    }
}

pub(crate) fn put(node: &Server, path: &str, body: &str) -> Answer {
    node.ask("PUT", path, &[JSON, bearer_admin()], body)
}

/// Two rules that apply to every request and always have the same limit.
pub(crate) fn pair(limit: u64) -> String {
    let rule = |id: &str| json!({"rule_id": id, "limit": limit, "window": "300d", "identifier_type": "user_id"});
    json!({"rules": [rule("pair_one"), rule("pair_other")]}).to_string()
}

fn limits(told: &Value) -> [u64; 2] {
    ["pair_one", "pair_other"].map(|id| {
        let rules = told["rules"].as_array().map_or(&[][..], Vec::as_slice);
        let rule = rules.iter().find(|rule| rule["rule_id"] == id);
        rule.and_then(|rule| rule["limit"].as_u64()).unwrap_or(0)
    })
}

/// The limit that a node applies, if both rules of the pair have the same.
pub(crate) fn limit_at(node: &Server) -> u64 {
    let [one, other] = limits(&node.check(ALICE));
    assert_eq!(one, other);
    one
}
