//! Nodes count together only with the same secret of the fleet.

use tollgate_e2e::process::Process;
use tollgate_e2e::server::{Server, Setup, command};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis};

use crate::nodes::check_of;
use crate::rotation::Marked;

const OURS: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef");
const THEIRS: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "theirs-0123456789abcdef0123456789abcd");
const RULES: &str = "rules: [{rule_id: per_user, limit: 3, window: 300d, identifier_type: user_id, on_store_failure: closed}]";

fn setup<'a>(store: &'a [&'a str], secret: &'a [(&'a str, &'a str)]) -> Setup<'a> {
    Setup { rules: Some(RULES), arguments: store, environment: secret, ..Setup::default() }
}

fn is_allowed(node: &Server) -> bool {
    node.check(&check_of("per_user", "alice"))["allowed"] == true
}

fn is_store_up(node: &Server) -> bool {
    let metrics = node.get("/metrics").text();
    let up = metrics.lines().find(|line| line.starts_with("tollgate_store_up{"));
    let up = up.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    up.expect("a figure") > 0.5
}

/// The exit code and the errors of a server that does not start.
fn refusal(setup: &Setup<'_>) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut process = Process::start(&mut command(setup, folder.path()));
    (process.end().code(), process.errors())
}

#[test]
fn only_nodes_with_the_same_secret_share_a_store() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    for url in [redis.url(), postgres.url()] {
        let store = ["--store", url.as_str()];
        let nodes = [(); 2].map(|()| Server::start(&setup(&store, &[OURS])));
        assert!(is_allowed(&nodes[0]) && is_allowed(&nodes[1]) && is_allowed(&nodes[0]), "{url}");
        assert!(!is_allowed(&nodes[1]), "they count together");
        for secret in [&[THEIRS][..], &[]] {
            let (code, errors) = refusal(&setup(&store, secret));
            assert_eq!(code, Some(2), "{errors}");
            assert!(errors.contains("belongs to another fleet"), "{errors}");
            assert!(!errors.contains(THEIRS.1) && !errors.contains(OURS.1), "{errors}");
        }
    }
}

#[test]
fn a_store_that_becomes_that_of_others_is_not_used_any_more() {
    let redis = Redis::start();
    let (url, mark) = (redis.url(), "tg:fleet");
    let store = ["--store", url.as_str()];
    let node = Server::start(&setup(&store, &[OURS]));
    assert!(is_allowed(&node));
    redis.command(&["SET", mark, "others"]);
    until("the store to be closed", || (!is_store_up(&node)).then_some(()));
    assert!(!is_allowed(&node), "on_store_failure: closed");
    // All kinds of errors were 0, as if it could not be reached.
    assert_eq!(node.check(&check_of("per_user", "alice"))["degraded"], "other_fleet");
    assert_eq!(node.get("/health/ready").json()["store"][0]["reason"], "other_fleet");
    let listed = node.get_as_admin("/api/v1/nodes").json();
    assert_eq!(listed["nodes"][0]["store"]["reason"], "other_fleet", "{listed}");
    let metrics = node.get("/metrics").text();
    let kind = metrics.lines().find(|line| line.contains("kind=\"other_fleet\""));
    assert!(kind.is_some_and(|line| !line.ends_with(" 0")), "{kind:?}");
    let line = "belongs to another fleet";
    until("a line", || node.process.errors().contains(line).then_some(()));
    assert!(node.process.errors().contains("although this node has counted there"));
    // As after a restart of Redis: the node marks it again.
    redis.command(&["DEL", mark]);
    until("the store to be open", || is_allowed(&node).then_some(()));
}

/// It was silent about it for ever.
#[test]
fn a_node_that_starts_without_the_store_of_others_says_so_once_it_is_there() {
    let redis = Redis::start();
    let (url, line) = (redis.url(), "belongs to another fleet");
    let store = ["--store", url.as_str()];
    redis.command(&["SET", "tg:fleet", "others"]);
    redis.pause();
    let node = Server::start(&setup(&store, &[OURS]));
    redis.resume();
    until("a line", || node.process.errors().contains(line).then_some(()));
    assert!(!is_store_up(&node) && !is_allowed(&node), "on_store_failure: closed");
    redis.command(&["DEL", "tg:fleet"]);
    until("the store to be open", || is_allowed(&node).then_some(()));
}

/// The node that was refused looked most often, so that it marked the store first and locked all others out.
#[test]
fn a_node_with_another_secret_does_not_take_a_store_that_lost_its_data() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    for lost in [&redis as &dyn Marked, &postgres] {
        let url = lost.url();
        let store = ["--store", url.as_str()];
        let nodes = [(); 2].map(|()| Server::start(&setup(&store, &[OURS])));
        let mark = lost.mark();
        lost.pause();
        let wrong = Server::start(&setup(&store, &[THEIRS]));
        lost.resume();
        let line = "belongs to another fleet";
        until("a line", || wrong.process.errors().contains(line).then_some(()));
        lost.lose_data();
        let found = until("a mark", || Some(lost.mark()).filter(|mark| !mark.is_empty()));
        assert_eq!(found, mark, "{url}");
        until("the nodes to count", || nodes.iter().all(is_store_up).then_some(()));
        assert!(!is_store_up(&wrong), "{url}");
        assert!(nodes.iter().all(|node| !node.process.errors().contains(line)), "{url}");
    }
}

/// They were cut off from their store by the first node that had a secret.
#[test]
fn nodes_without_a_secret_keep_their_store() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    for url in [redis.url(), postgres.url()] {
        let store = ["--store", url.as_str()];
        let nodes = [(); 2].map(|()| Server::start(&setup(&store, &[])));
        let with_secret = Server::start(&setup(&store, &[OURS]));
        assert!(is_store_up(&with_secret), "it counts with them");
        assert!(is_allowed(&nodes[0]) && is_allowed(&nodes[1]) && is_allowed(&nodes[0]), "{url}");
        assert!(!is_allowed(&nodes[1]), "they count together");
    }
    // Their mark ends soon after them, so that nodes with a secret can follow.
    let lasts = redis.command(&["PTTL", "tg:fleet"]).integer();
    assert!((1..=20_000).contains(&lasts), "{lasts}");
    postgres.query("UPDATE tollgate_counters SET expires_at = 1 WHERE name = 'fleet'");
    redis.command(&["DEL", "tg:fleet"]);
    for url in [redis.url(), postgres.url()] {
        assert!(is_store_up(&Server::start(&setup(&["--store", url.as_str()], &[OURS]))), "{url}");
    }
}

/// It was silent: neither the log nor the counts of errors said so.
#[test]
fn a_store_that_is_away_from_the_start_is_reported() {
    let url = {
        let gone = Redis::start();
        gone.url()
    };
    let node = Server::start(&setup(&["--store", url.as_str()], &[OURS]));
    let line = "until it can be used, on_store_failure of each rule applies";
    until("the warning", || node.process.errors().contains(line).then_some(()));
}

/// Nodes with one catalog need no setting: the first makes the secret.
#[test]
fn nodes_with_one_catalog_have_one_secret() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let (catalog, url) = (postgres.url(), redis.url());
    let arguments = ["--store", url.as_str(), "--catalog", catalog.as_str()];
    let setup = Setup { arguments: &arguments, ..Setup::default() };
    let nodes = [(); 2].map(|()| Server::start(&setup));
    let secret = postgres.query("SELECT secret FROM tollgate_fleet");
    assert!(secret.len() >= 32, "{secret}");
    for node in &nodes {
        assert!(is_store_up(node));
        assert!(!node.said.contains(&secret) && !node.process.errors().contains(&secret));
    }
    // Another catalog is another fleet.
    let (code, errors) = refusal(&Setup { arguments: &arguments[..2], ..Setup::default() });
    assert_eq!(code, Some(2), "{errors}");
}
