//! What one tenant writes or sends does not delay the checks of others. `scripts/soak/isolation` measures by how much.

use std::env;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tollgate::Stopwatch;

use tollgate_e2e::client::{Answer, request};
use tollgate_e2e::server::{CHECK, JSON, Server, Setup, bearer_admin};

/// Longer than any check waits on a busy machine. Before the fixes it was half a minute and more.
const LONG: Duration = Duration::from_secs(5);
/// What 99 of 100 checks may take in the soak, which runs a release build on a quiet machine.
const MAX_P99: Duration = Duration::from_millis(50);
/// Checks of the soak.
const SOAK_CHECKS: usize = 1_000;
/// One thread for all connections, so that nothing hides work that blocks it.
const ONE_WORKER: (&str, &str) = ("TOKIO_WORKER_THREADS", "1");

fn is_soak() -> bool {
    env::var_os("TOLLGATE_SOAK_ISOLATION").is_some()
}

fn start(settings: &str) -> Server {
    // The soak measures what users run.
    let environment: &[_] = if is_soak() { &[] } else { &[ONE_WORKER] };
    Server::start(&Setup { settings, environment, ..Setup::default() })
}

/// Sends checks of a bystander while `attack` runs, and returns how long each took. The attack is repeated
/// until there are enough of them.
fn bystander(server: &Server, attack: impl Fn() + Sync) -> Vec<Duration> {
    let wanted = if is_soak() { SOAK_CHECKS } else { 1 };
    let (started, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let check = json!({"identifiers": {"user_id": "u", "tenant": "globex"}}).to_string();
    let check = request("POST", CHECK, &[JSON], check.as_bytes());
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                attack();
                if started.load(Relaxed) >= wanted {
                    break;
                }
            }
            is_over.store(true, Relaxed);
        });
        let mut connection = server.connect();
        let mut times = Vec::new();
        while !is_over.load(Relaxed) {
            started.fetch_add(1, Relaxed);
            let stopwatch = Stopwatch::start();
            assert_eq!(connection.ask(&check).status, 200);
            times.push(stopwatch.elapsed());
        }
        times
    })
}

fn assert_prompt(attack: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let slowest = times.last().expect("checks during the attack");
    assert!(*slowest < LONG, "a check took {slowest:?}");
    if is_soak() {
        let at = |percent: usize| times[times.len() * percent / 100];
        let (half, p99) = (at(50), at(99));
        println!(
            "{} checks beside {attack}: p50 {half:.1?}, p99 {p99:.1?}, slowest {slowest:.1?}",
            times.len()
        );
        assert!(p99 < MAX_P99, "the p99 is {p99:?}");
    }
}

fn put_policy(server: &Server, query: &str, body: &[u8]) -> Answer {
    let path = format!("/api/v1/policy{query}");
    server.connect().ask(&request("PUT", &path, &[JSON, bearer_admin()], body))
}

#[test]
fn large_documents_do_not_delay_checks() {
    let server = start("{}");
    let values = format!("{{\"rules\":[{}{{}}]}}", "{},".repeat(5_000_000));
    let fields: String = (0..900_000).map(|key| format!("\"k{key:07}\":1,")).collect();
    let fields = format!("{{{fields}\"k\":1}}");
    for (attack, document) in [("empty rules", &values), ("unknown fields", &fields)] {
        let times = bystander(&server, || {
            thread::scope(|scope| {
                for query in ["", "?dry_run=true", "?prune=rules"] {
                    let server = &server;
                    scope.spawn(move || {
                        let answer = put_policy(server, query, document.as_bytes());
                        assert_eq!(answer.status, 422, "{answer:?}");
                        assert_eq!(answer.code(), "invalid_document");
                        assert!(answer.body.len() < 200_000, "{} bytes", answer.body.len());
                    });
                }
            });
        });
        assert_prompt(&format!("three documents of 15 MB of {attack}"), times);
    }
}

#[test]
fn hostile_globs_do_not_delay_checks() {
    let server = start("{limits: {rule_bytes: 1MiB, globs_per_rule: 5000}}");
    let globs: Vec<String> = (0..3_500).map(|n| format!("*{}b{n}*", "a?".repeat(100))).collect();
    let rule = json!({"rule_id": "hostile", "limit": 1_000_000, "window": "1h", "tenant": "acme",
        "identifier_type": "tenant", "applies_to": {"attributes": {"user_id": globs}}});
    let made = server.post_as_admin("/api/v1/rules", &rule.to_string());
    assert_eq!(made.status, 201, "{made:?}");
    let check = json!({"identifiers": {"user_id": "a".repeat(4_096), "tenant": "acme"}});
    let check = request("POST", CHECK, &[JSON], check.to_string().as_bytes());
    let times = bystander(&server, || {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut connection = server.connect();
                    for _ in 0..5 {
                        let answer = connection.ask(&check);
                        assert_eq!(answer.status, 200, "{answer:?}");
                        // The value is too long to be compared, so the rule applies.
                        assert!(answer.text().contains("hostile"), "{answer:?}");
                    }
                });
            }
        });
    });
    assert_prompt("3,500 hostile globs and identifiers of 4 KiB", times);
}

#[test]
fn an_error_names_the_bound_that_a_document_exceeds() {
    let server = start(
        "{limits: {tenant_document_bytes: 2KiB, document_bytes: 4KiB, rule_bytes: 1KiB, \
         globs_per_rule: 2, rules_per_tenant: 2}}",
    );
    let token = server.post_as_admin(
        "/api/v1/tokens",
        &json!({"role": "tenant-admin", "tenant": "acme"}).to_string(),
    );
    let token = format!("Bearer {}", token.json()["token"].as_str().expect("a token"));
    let put = |document: &str, token: &str| {
        let headers = [JSON, ("Authorization", token)];
        server.connect().ask(&request("PUT", "/api/v1/policy", &headers, document.as_bytes()))
    };
    let rule = |id: &str, more: &serde_json::Value| {
        let mut rule = json!({"rule_id": id, "limit": 1, "window": "1h", "tenant": "acme",
            "identifier_type": "user_id"});
        if let (Some(rule), Some(more)) = (rule.as_object_mut(), more.as_object()) {
            rule.extend(more.clone());
        }
        rule
    };
    let none = json!({});
    let admin = bearer_admin().1;
    for (document, token, status, told) in [
        (" ".repeat(2_049), token.as_str(), 413, "2048 bytes (limits.tenant_document_bytes)"),
        (" ".repeat(4_097), admin, 413, "4096 bytes (limits.document_bytes)"),
        (
            json!({"rules": [rule("acme.r", &json!({"description": "x".repeat(1_024)}))]}).to_string(),
            token.as_str(),
            422,
            "at most 1024 (limits.rule_bytes)",
        ),
        (
            json!({"rules": [rule("acme.r", &json!({"applies_to": {"attributes": {"a": ["a*", "b*", "c*"]}}}))]})
                .to_string(),
            token.as_str(),
            422,
            "at most 2 (limits.globs_per_rule)",
        ),
        (
            json!({"rules": [rule("acme.a", &none), rule("acme.b", &none), rule("acme.c", &none)]}).to_string(),
            token.as_str(),
            422,
            "at most 2 (limits.rules_per_tenant)",
        ),
        (json!({"rules": [rule("acme.a", &none), rule("acme.b", &none)]}).to_string(), token.as_str(), 200, "changes"),
    ] {
        let answer = put(&document, token);
        assert_eq!(answer.status, status, "{told}: {answer:?}");
        assert!(answer.text().contains(told), "{told}: {answer:?}");
    }
}

/// A tenant-admin once wrote 11 GB an hour into the log of changes.
#[test]
fn a_tenant_admin_cannot_write_any_number_of_bytes() {
    let server = start("{limits: {tenant_write_bytes_per_hour: 8KiB}}");
    let token = |tenant: &str| {
        let body = json!({"role": "tenant-admin", "tenant": tenant}).to_string();
        let made = server.post_as_admin("/api/v1/tokens", &body).json();
        format!("Bearer {}", made["token"].as_str().expect("a token"))
    };
    let (acme, also_acme, globex) = (token("acme"), token("acme"), token("globex"));
    let call = |method: &str, path: &str, token: &str, body: &serde_json::Value| {
        server.ask(method, path, &[JSON, ("Authorization", token)], &body.to_string())
    };
    let rule = |tenant: &str| {
        json!({"rule_id": format!("{tenant}.r"), "tenant": tenant, "limit": 1, "window": "1h",
            "identifier_type": "user_id", "description": "x".repeat(3_000)})
    };
    let check_refused = |answer: &Answer| {
        assert_eq!(
            (answer.status, answer.code()),
            (429, "too_many_calls".to_owned()),
            "{answer:?}"
        );
        assert!(answer.text().contains("limits.tenant_write_bytes_per_hour"), "{answer:?}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    };
    let made = call("POST", "/api/v1/rules", &acme, &rule("acme"));
    assert_eq!(made.status, 201, "{made:?}");
    // A short patch writes the whole rule into the log again.
    let path = "/api/v1/rules/acme.r";
    let patched = call("PATCH", path, &acme, &json!({"limit": 2}));
    assert_eq!(patched.status, 200, "{patched:?}");
    check_refused(&call("PATCH", path, &acme, &json!({"limit": 3})));
    let policy = json!({"rules": [rule("acme")]});
    check_refused(&call("PUT", "/api/v1/policy", &also_acme, &policy));
    check_refused(&call("POST", "/api/v1/rules", &also_acme, &rule("acme")));
    let listed = json!({"identifier_type": "user_id", "identifier": "u", "tenant": "acme",
        "reason": "x".repeat(3_000)});
    check_refused(&call("POST", "/api/v1/blacklist", &acme, &listed));
    let removed = server.ask("DELETE", path, &[("Authorization", acme.as_str())], "");
    assert_eq!(removed.status, 204, "removing is always possible: {removed:?}");
    let others = call("POST", "/api/v1/rules", &globex, &rule("globex"));
    assert_eq!(others.status, 201, "{others:?}");
    for _ in 0..4 {
        let by_operator = server.post_as_admin("/api/v1/rules", &rule("acme").to_string());
        assert!(by_operator.status < 300, "{by_operator:?}");
    }
}

#[test]
fn explain_shows_rules_of_other_tenants_to_viewers_only() {
    let rules = "{rules: [
        {rule_id: everyone, limit: 5, window: 1m, identifier_type: ip},
        {rule_id: acme_cap, limit: 6, window: 1m, identifier_type: ip, tenant: acme},
        {rule_id: globex_secret_promo, limit: 7, window: 1m, identifier_type: ip, tenant: globex}]}";
    let server = Server::with_rules(rules);
    let path = "/api/v1/rate-limit/explain";
    let explain = |tenant: &str, headers: &[(&str, &str)]| {
        let body = json!({"identifiers": {"ip": "192.0.2.1", "tenant": tenant}}).to_string();
        let answer = server.ask("POST", path, &[&[JSON], headers].concat(), &body);
        let rules = answer.json()["rules"].as_array().cloned().unwrap_or_default();
        let ids: Vec<String> =
            rules.iter().filter_map(|it| it["rule_id"].as_str().map(str::to_owned)).collect();
        (answer.status, ids.join(" "), answer.text())
    };
    for (tenant, expected) in [("acme", "everyone acme_cap"), ("initech", "everyone")] {
        let (status, mut ids, told) = explain(tenant, &[]);
        if tenant == "acme" {
            // The narrower rule is reported first.
            ids = ids.split(' ').rev().collect::<Vec<_>>().join(" ");
        }
        assert_eq!((status, ids.as_str()), (200, expected), "{told}");
        assert!(!told.contains("globex"), "{told}");
    }
    let (status, ids, _) = explain("acme", &[bearer_admin()]);
    assert_eq!((status, ids.contains("globex_secret_promo")), (200, true), "{ids}");
    let (status, ..) = explain("acme", &[("Authorization", "Bearer wrong")]);
    assert_eq!(status, 401, "a token cannot be guessed here");
}

#[test]
fn a_thousand_rules_do_not_make_a_head_that_proxies_refuse() {
    let rules: Vec<String> = (0..1_000)
        .map(|at| {
            let limit = if at == 700 { 3 } else { 1_000 + at };
            format!("{{rule_id: a_rule_with_a_long_name_{at}, limit: {limit}, window: 1m, identifier_type: ip}}")
        })
        .collect();
    let rules = format!("rules: [{}]", rules.join(", "));
    for family in ["draft-11", "draft-7", "draft-6"] {
        let settings = format!("{{headers: [x-ratelimit, {family}]}}");
        let server =
            Server::start(&Setup { rules: Some(&rules), settings: &settings, ..Setup::default() });
        let body = json!({"identifiers": {"ip": "192.0.2.1"}, "detail": false}).to_string();
        let answer = server.post(CHECK, &body);
        assert_eq!(answer.status, 200);
        for name in ["ratelimit", "ratelimit-policy"] {
            let Some(value) = answer.header(name) else { continue };
            assert!(value.len() <= 1_024, "{family} {name}: {} bytes", value.len());
            if family == "draft-11" {
                assert!(
                    value.contains("a_rule_with_a_long_name_700\""),
                    "the binding one: {value}"
                );
            }
        }
        assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
    }
}
