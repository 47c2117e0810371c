//! Reading rules while the catalog is unavailable.

use tollgate_e2e::server::{ADMIN_TOKEN, Server, tollgate};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis};

use crate::fleet::{Fleet, node, pair, put};

const STALE: &str = "x-tollgate-stale-since";
const PATHS: [&str; 5] = [
    "/api/v1/rules",
    "/api/v1/rules/pair_one",
    "/api/v1/policy",
    "/api/v1/blacklist",
    "/api/v1/rules?detail=true&limit=1",
];

/// What a node responds while the database is there, and that it does not say otherwise.
fn read(server: &Server, path: &str) -> String {
    let answer = server.get_as_admin(path);
    assert_eq!((answer.status, answer.header(STALE)), (200, None), "{path}: {answer:?}");
    answer.text()
}

#[test]
fn rules_can_be_read_while_the_database_is_killed() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let fleet = Fleet::start(2, &postgres.url(), &redis.url());
    let listed = r#"{"blacklist":[{"identifier_type":"user_id","identifier":"mallory"}]}"#;
    assert_eq!(put(&fleet.nodes[0], "/api/v1/policy", listed).status, 200);
    until("the list on both nodes", || {
        let mallory = r#"{"identifiers":{"user_id":"mallory"},"endpoint":"/","method":"GET"}"#;
        fleet.nodes[1].check(mallory).to_string().contains("denied").then_some(())
    });
    let before = PATHS.map(|path| read(&fleet.nodes[1], path));
    assert!(before[2].contains("mallory"), "{}", before[2]);
    postgres.kill();
    for server in &fleet.nodes {
        for (path, expected) in PATHS.iter().zip(&before).take(4) {
            let answer = server.get_as_admin(path);
            assert_eq!((answer.status, &answer.text()), (200, expected), "{path}: {answer:?}");
            let since = answer.header(STALE).expect("when the catalog last responded");
            assert!(since.starts_with("20") && since.ends_with('Z'), "{since}");
        }
        // Who wrote an entry is only in the database.
        let plain = server.get_as_admin(PATHS[4]);
        assert!(plain.status == 200 && !plain.text().contains("created_by"), "{plain:?}");
        for path in ["/api/v1/tokens", "/api/v1/audit", "/api/v1/policy/revisions"] {
            assert_eq!(server.get_as_admin(path).status, 503, "{path}");
        }
        assert_eq!(server.get_as_admin("/api/v1/rules/nope").status, 404);
        assert_eq!(put(server, "/api/v1/policy", &pair(5)).status, 503);
    }
    let listed = tollgate()
        .args(["rules", "list", "--server", &fleet.nodes[0].url(""), "--token", ADMIN_TOKEN])
        .output()
        .expect("the command runs");
    let errors = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success() && errors.contains("unavailable since 20"), "{errors}");
    postgres.restart();
    for server in &fleet.nodes {
        until("the end of the outage", || {
            server.get_as_admin("/api/v1/rules").header(STALE).is_none().then_some(())
        });
        for (path, expected) in PATHS.iter().zip(&before) {
            assert_eq!(&read(server, path), expected);
        }
    }
}

#[test]
fn a_node_that_never_reached_the_database_shows_the_rules_in_force() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let catalog = postgres.url();
    postgres.kill();
    let folder = tempfile::tempdir().expect("a folder");
    let server = node(&catalog, &redis.url(), &folder);
    let rules = server.get_as_admin("/api/v1/rules");
    assert_eq!(rules.status, 200, "{rules:?}");
    assert!(
        rules.header(STALE).is_some_and(|since| since > "2020")
            && rules.text().contains("default_per_ip"),
        "{rules:?}"
    );
    assert_eq!(
        server.get_as_admin("/api/v1/rules/default_per_ip").json()["rule_id"],
        "default_per_ip"
    );
    assert_eq!(server.get_as_admin("/api/v1/rules/nope").status, 404);
    // Its clients and lists are not known.
    assert_eq!(server.get_as_admin("/api/v1/policy").status, 503);
    assert_eq!(server.get_as_admin("/api/v1/blacklist").status, 503);
}
