//! Domains that are in no file: the rules of the policy, shared with every other entry point.

use serde_json::{Value, json};

use super::{brief, header, start_with};
use tollgate_e2e::grpc::{Client, request};
use tollgate_e2e::server::{JSON, Server, Setup};
use tollgate_testbed::{Postgres, Redis};

const RULES: &str = "
rules:
  - {rule_id: per_user, name: by user, limit: 5, window: 300d, identifier_type: user_id}
  - {rule_id: per_address, limit: 7, window: 300d, identifier_type: ip}
  - rule_id: login
    limit: 2
    window: 300d
    identifier_type: ip
    applies_to: {endpoints: [/login], methods: [POST]}
  - {rule_id: per_plan, limit: 3, window: 1d, algorithm: fixed_window, identifier_type: 'attribute:plan'}
  - {rule_id: per_domain, limit: 4, window: 300d, identifier_type: ['attribute:domain', 'attribute:shop']}
  - {rule_id: per_agent, limit: 6, window: 300d, identifier_type: 'header:user-agent'}
blacklist: [{identifier_type: user_id, identifier: mallory, reason: abuse}]
";

fn ask(client: &mut Client, domain: &str, descriptors: &[&[&str]]) -> Value {
    client.should_rate_limit(&request(domain, descriptors))
}

fn check(client: &mut Client, domain: &str, descriptors: &[&[&str]], expected: &str) {
    let answer = ask(client, domain, descriptors);
    assert_eq!(brief(&answer), expected, "{domain} {descriptors:?}: {answer}");
}

#[test]
fn entries_are_attributes_of_rules() {
    let server = Server::with_rules(RULES);
    let client = &mut Client::of(&server);
    check(client, "any", &[&["user_id=ann"]], "OK, OK 4");
    check(client, "other", &[&["user=ann"]], "OK, OK 3");
    check(client, "any", &[&["remote_address=192.0.2.1"]], "OK, OK 6");
    let login = &["remote_address=192.0.2.1", "path=/login", "method=POST"][..];
    check(client, "any", &[login], "OK, OK 1");
    check(client, "any", &[&["header:user-agent=curl"]], "OK, OK 5");
    check(client, "any", &[&["plan=gold"]], "OK, OK 2");
    check(client, "one", &[&["shop=x"]], "OK, OK 3");
    check(client, "two", &[&["shop=x"]], "OK, OK 3");
    check(client, "one", &[&["shop=x"]], "OK, OK 2");
    check(client, "any", &[&["nothing=known"]], "OK, OK 0");
    // Each descriptor has the limit that binds it.
    let both = ask(client, "any", &[&["user=bob"], login]);
    assert_eq!(brief(&both), "OK, OK 4, OK 0");
    let names = [0, 1].map(|place| both["statuses"][place]["current_limit"]["name"].clone());
    assert_eq!(names, ["by user", ""], "ids are not shown");
    let limit = &ask(client, "any", &[&["plan=gold"]])["statuses"][0]["current_limit"];
    assert_eq!(*limit, json!({"requests_per_unit": 3, "unit": "DAY", "name": ""}));
    let unit = &both["statuses"][0]["current_limit"]["unit"];
    assert_eq!(unit, "UNKNOWN", "300 days are none of Envoy's units");
}

/// The rule of docs/envoy.md, with a longer window.
#[test]
fn a_limit_of_limitador_is_written_as_a_rule() {
    let rules = include_str!("../../../../../docs/envoy.md");
    let rules = rules.split_once("# shop.yaml").expect("the policy").1;
    let rules = rules.split_once("```").expect("its end").0.replace("60s", "300d");
    let server = Server::with_rules(&rules);
    let client = &mut Client::of(&server);
    let post = &["user_id=ann", "method=POST"][..];
    for left in (0..10).rev() {
        check(client, "shop", &[post], &format!("OK, OK {left}"));
    }
    check(client, "shop", &[post], "OVER_LIMIT, OVER_LIMIT 0");
    check(client, "shop", &[&["user_id=bob", "method=POST"]], "OK, OK 9");
    check(client, "shop", &[&["user_id=ann", "method=GET"]], "OK, OK 0");
    check(client, "other", &[post], "OK, OK 0");
}

#[test]
fn a_refused_descriptor_charges_nothing_to_the_others() {
    let server = Server::with_rules(RULES);
    let client = &mut Client::of(&server);
    let login = &["remote_address=192.0.2.1", "path=/login", "method=POST"][..];
    check(client, "any", &[login], "OK, OK 1");
    check(client, "any", &[login], "OK, OK 0");
    let refused = ask(client, "any", &[&["user=ann"], login]);
    assert_eq!(brief(&refused), "OVER_LIMIT, OK 5, OVER_LIMIT 0");
    assert!(header(&refused, "retry-after").is_some(), "{refused}");
    check(client, "any", &[&["user=ann"]], "OK, OK 4");
    // A list applies to the whole request.
    let denied = ask(client, "any", &[&["user=mallory"], &["plan=x"]]);
    assert_eq!(denied["overall_code"], "OVER_LIMIT", "{denied}");
    check(client, "any", &[&["plan=x"]], "OK, OK 2");
}

#[test]
fn both_kinds_of_domains_work_together() {
    let file = "{domain: test, descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 2}}]}";
    let server = start_with(file, &Setup { rules: Some(RULES), ..Setup::default() });
    let client = &mut Client::of(&server);
    check(client, "test", &[&["user=ann"]], "OK, OK 1");
    check(client, "any", &[&["user=ann"]], "OK, OK 4");
    let over_http = server.check(r#"{"identifiers":{"user_id":"ann"}}"#);
    assert_eq!(over_http["remaining"], 3, "rules count for every entry point");
    check(client, "any", &[&["user=ann"]], "OK, OK 2");
}

/// In PostgreSQL both were one counter: a tenant reached limits of Envoy by the id of its rule.
#[test]
fn a_rule_of_a_tenant_has_other_counters_than_a_limit_of_a_file_with_its_id() {
    const FILE: &str = "domain: acme\ndescriptors: \
                        [{key: user, rate_limit: {unit: year, requests_per_unit: 2}}]\n";
    // What the limit of the file counts by, as a client of the tenant could name itself.
    let counter = "4:acme4:user1:7";
    let (postgres, redis) = (Postgres::start(), Redis::start());
    for store in [postgres.url(), redis.url(), "memory".to_owned()] {
        let arguments = ["--store", &store, "--catalog", "sqlite:tollgate.db"];
        let server = start_with(FILE, &Setup { arguments: &arguments, ..Setup::default() });
        let token = json!({"role": "tenant-admin", "tenant": "acme"}).to_string();
        let made = server.post_as_admin("/api/v1/tokens", &token).json();
        let bearer = format!("Bearer {}", made["token"].as_str().expect("a token"));
        let bearer = [JSON, ("Authorization", bearer.as_str())];
        let rule = json!({"rule_id": "acme.user", "limit": 2, "window": "300d", "tenant": "acme",
            "algorithm": "fixed_window", "identifier_type": "user_id"});
        let written = server.ask("POST", "/api/v1/rules", &bearer, &rule.to_string());
        assert_eq!(written.status, 201, "{written:?}");
        let client = &mut Client::of(&server);
        check(client, "acme", &[&["user=7"]], "OK, OK 1");
        let body = json!({"rule_id": "acme.user", "identifiers":
            {"tenant": "acme", "user_id": counter}});
        for left in [1, 0] {
            assert_eq!(server.check(&body.to_string())["remaining"], left, "{store}");
        }
        check(client, "acme", &[&["user=7"]], "OK, OK 0");
        let reset = server.post_as_admin("/api/v1/rate-limit/reset", &body.to_string());
        assert_eq!(reset.status, 200, "{reset:?}");
        check(client, "acme", &[&["user=7"]], "OVER_LIMIT, OVER_LIMIT 0");
    }
}
