//! Long lists, page by page.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::desk::{TestServer, step};
use tollgate_e2e::server::ADMIN_TOKEN;

const MANY: usize = 250;

/// Follows the links from page to page; returns the length of each page, and `name` of all entries.
fn follow(
    desk: &TestServer,
    first: &str,
    list: &str,
    name: &str,
) -> (Vec<usize>, BTreeSet<String>) {
    let (mut lengths, mut names) = (Vec::new(), BTreeSet::new());
    let mut next = Some(first.to_owned());
    while let Some(path) = next {
        let answer = desk.call(ADMIN_TOKEN, &step("GET", &path, ""));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let body = answer.json();
        let entries = body[list].as_array().unwrap_or_else(|| panic!("no {list}: {body}"));
        lengths.push(entries.len());
        names.extend(entries.iter().map(|entry| entry[name].to_string()));
        next = answer.header("link").map(|link| {
            let (target, rest) = link.split_once('>').expect("a link");
            assert_eq!(rest, "; rel=\"next\"");
            target.trim_start_matches('<').to_owned()
        });
        assert!(lengths.len() < 1_000, "the pages have no end");
    }
    (lengths, names)
}

fn many(entry: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..MANY).map(entry).collect()
}

#[test]
fn every_entry_is_on_one_page() {
    let desk = TestServer::open();
    let user = |number: usize| format!("u&{number} \u{fc}/?");
    let rule = |number: usize| json!({"rule_id": format!("r{number}"), "limit": 1, "window": "1h", "identifier_type": "user_id"});
    let listed = |number| json!({"identifier_type": "user_id", "identifier": user(number)});
    let client =
        |number| json!({"identifier_type": "user_id", "identifier": user(number), "tier": "pro"});
    let exception = |number| json!({"rule_id": "r7", "identifier_type": "user_id", "identifier": user(number), "limit": 1});
    let policy = json!({
        "rules": many(rule), "tiers": [{"tier": "pro"}], "clients": many(client),
        "overrides": many(exception), "whitelist": many(listed), "blacklist": many(listed),
    });
    desk.prepare("PUT", "/api/v1/policy?prune=rules", &policy.to_string());
    for number in 0..MANY {
        desk.prepare("POST", "/api/v1/api-keys", &json!({"name": user(number)}).to_string());
        let token = json!({"role": "caller", "name": user(number)});
        desk.prepare("POST", "/api/v1/tokens", &token.to_string());
    }
    let check = |first: &str, name: &str, lengths: &[usize]| {
        let (_, path) = first.rsplit_once('/').expect("a path");
        let list = path.split('?').next().unwrap_or_default().replace('-', "_");
        let (found, names) = follow(&desk, first, &list, name);
        assert_eq!(found, lengths, "{first}");
        assert_eq!(names.len(), MANY, "{first}");
    };
    for (list, name) in [
        ("rules", "rule_id"),
        ("whitelist", "identifier"),
        ("blacklist", "identifier"),
        ("clients", "identifier"),
        ("overrides", "identifier"),
        ("api-keys", "name"),
        ("tokens", "name"),
    ] {
        check(&format!("/api/v1/{list}"), name, &[100, 100, 50]);
        check(&format!("/api/v1/{list}?limit=125"), name, &[125, 125]);
        check(&format!("/api/v1/{list}?limit=1000"), name, &[250]);
    }
    check("/admin/api/v1/rate-limits/whitelist", "identifier", &[100, 100, 50]);
    check("/api/v1/clients?tier=pro&detail=true", "identifier", &[100, 100, 50]);
    check("/api/v1/overrides?limit=200&rule_id=r7", "identifier", &[200, 50]);
    let none = follow(&desk, "/api/v1/clients?tier=free", "clients", "identifier");
    assert_eq!(none, (vec![0], BTreeSet::new()));
}
