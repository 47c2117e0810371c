//! How old figures of a fleet are: a second at most. Each response says of when its figures are, so that no test depends
//! on how fast the machine is.

use serde_json::{Value, json};
use tollgate::rules::parse_time;
use tollgate::{Clock as _, Micros, SystemClock, Timestamp};
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis};

const SECRET: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef");
const SETTINGS: &str = "{limits: {admin_reads_per_minute: 1000000}, store_failure: {deadline: 5s}}";
const RULES: &str = "rules: [{rule_id: r, limit: 1000, window: 300d, identifier_type: user_id}]";
/// What docs/fleet.md promises.
const MAX_AGE: Micros = Micros::from_secs(1);

fn now() -> Timestamp {
    SystemClock.now()
}

/// Of when the figures of a response are.
fn as_of(figures: &Value) -> Timestamp {
    let text = figures["as_of"].as_str().unwrap_or_else(|| panic!("no as_of: {figures}"));
    parse_time(text).expect("a time")
}

/// The figures at a path, which are not older than promised when they are asked for.
fn fresh(node: &Server, path: &str) -> Value {
    let asked = now();
    let answer = node.get_as_admin(path);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    let figures = answer.json();
    let as_of = as_of(&figures);
    assert!(
        asked.since(as_of) <= MAX_AGE,
        "{path}: of {as_of:?}, asked for at {asked:?}: {figures}"
    );
    assert!(as_of <= now(), "{path}: of the future: {figures}");
    figures
}

/// How many requests of the user are in the figures.
fn counted(path: &str, figures: &Value) -> u64 {
    let count = match path {
        "/api/v1/stats" => &figures["totals"]["requests"],
        _ => &figures["busiest"]["top"][0]["count"],
    };
    count.as_u64().unwrap_or(0)
}

fn figures_are_fresh(fleet: &[Server; 2]) {
    let [asked, other] = fleet;
    let mut checks = 0;
    for path in ["/api/v1/stats", "/api/v1/top"] {
        until("both nodes", || (fresh(asked, path)["nodes"] == 2).then_some(()));
        for _ in 0..5 {
            other.check(&json!({"identifiers": {"user_id": "ann"}}).to_string());
            checks += 1;
            let decided = now();
            // What was cached before the check may be shown first, with its time.
            until("figures of after the check", || {
                let figures = fresh(asked, path);
                let is_whole = figures["nodes"] == 2 && figures["silent_nodes"] == json!([]);
                if !is_whole || as_of(&figures) < decided {
                    return None;
                }
                assert_eq!(counted(path, &figures), checks, "{path}, after {decided:?}: {figures}");
                Some(())
            });
        }
        let own = fresh(asked, &format!("{path}?scope=node"));
        assert_eq!(counted(path, &own), 0, "{own}");
    }
}

#[test]
fn figures_of_nodes_that_share_redis_are_a_second_old_at_most() {
    let redis = Redis::start();
    let url = redis.url();
    let arguments = ["--store", url.as_str()];
    let environment = &[SECRET];
    let setup =
        Setup { rules: Some(RULES), settings: SETTINGS, arguments: &arguments, environment };
    figures_are_fresh(&[(); 2].map(|()| Server::start(&setup)));
}

#[test]
fn figures_of_nodes_that_share_a_catalog_are_a_second_old_at_most() {
    let postgres = Postgres::start();
    let catalog = postgres.url();
    let arguments = ["--catalog", catalog.as_str()];
    let setup = Setup { settings: SETTINGS, arguments: &arguments, ..Setup::default() };
    figures_are_fresh(&[(); 2].map(|()| Server::start(&setup)));
}
