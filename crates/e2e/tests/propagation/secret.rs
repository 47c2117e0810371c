//! A node that cannot learn the secret of its fleet, since it has neither database nor copy, does not invent one: under
//! another name of each counter, it would count what no other node sees.

use std::collections::BTreeSet;

use tollgate_e2e::server::Server;
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis};

use crate::fleet::{limit_at, node, node_with, pair, put};

const OURS: &[(&str, &str)] = &[("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef")];

fn keys(redis: &Redis) -> BTreeSet<String> {
    let keys = redis.command(&["KEYS", "*"]);
    keys.list().iter().map(|key| key.text().to_owned()).collect()
}

fn check(node: &Server) -> serde_json::Value {
    node.check(r#"{"identifiers":{"user_id":"alice"},"endpoint":"/","method":"GET"}"#)
}

#[test]
fn a_node_that_cannot_learn_the_secret_counts_nothing_in_redis() {
    // The secret of a catalog, and one that nodes are given.
    for secret in [&[][..], OURS] {
        let (postgres, redis) = (Postgres::start(), Redis::start());
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let first = node_with(&postgres.url(), &redis.url(), folders[0].path(), secret);
        assert_eq!(put(&first, "/api/v1/policy?prune=rules", &pair(66)).status, 200);
        assert_eq!(limit_at(&first), 66);
        assert!(check(&first)["degraded"].is_null(), "it counts in Redis");
        postgres.kill();
        drop(first);
        let before = keys(&redis);
        assert!(before.len() >= 2, "{before:?}");

        let second = node(&postgres.url(), &redis.url(), &folders[1]);
        for _ in 0..20 {
            let checked = check(&second);
            assert!(checked["degraded"].is_string(), "{checked}");
            assert_eq!(checked["rule_id"], "default_per_user", "{checked}");
        }
        let after = keys(&redis);
        assert!(after.is_subset(&before), "{before:?} {after:?}");
        let said = second.process.errors();
        assert!(said.contains("fleet's secret"), "{said}");
        // Once it knows the secret, it counts.
        if secret.is_empty() {
            postgres.restart();
            until("a check in Redis", || check(&second)["degraded"].is_null().then_some(()));
            assert_eq!(limit_at(&second), 66);
        }
    }
}
