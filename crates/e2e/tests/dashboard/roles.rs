//! Roles and tenants: a page shows and changes what the token may see and change in the API.

use tollgate_e2e::server::{CHECK, JSON, Server, Setup};
use tollgate_e2e::until;

use crate::browser::{Browser, put_rule, token};
use crate::pages::PAGES;

/// Every form, with fields that an administrator could send.
const FORMS: &[(&str, &[(&str, &str)])] = &[
    (
        "/ui/new-rule",
        &[
            ("do", "save"),
            ("mode", "yaml"),
            ("yaml", "rule_id: x\nlimit: 1\nwindow: 1m\nidentifier_type: ip\n"),
        ],
    ),
    (
        "/ui/rules/login",
        &[
            ("do", "save"),
            ("mode", "yaml"),
            ("yaml", "rule_id: login\nlimit: 9\nwindow: 1m\nidentifier_type: ip\n"),
        ],
    ),
    ("/ui/rules/login/state", &[("state", "disabled")]),
    ("/ui/rules/login/delete", &[]),
    ("/ui/rules/login/rollback", &[("revision", "2")]),
    (
        "/ui/client/override",
        &[("type", "user_id"), ("value", "alice"), ("rule_id", "login"), ("limit", "9")],
    ),
    ("/ui/client/ban", &[("type", "user_id"), ("value", "alice")]),
    ("/ui/client/tier", &[("type", "user_id"), ("value", "alice"), ("tier", "pro")]),
    ("/ui/client/reset", &[("type", "user_id"), ("value", "alice")]),
    ("/ui/try", &[("user_id", "alice")]),
    ("/ui/refund", &[("decision_id", "d00000000-a0")]),
    ("/ui/lists/add", &[("list", "whitelist"), ("type", "user_id"), ("value", "alice")]),
    ("/ui/lists/remove", &[("list", "blacklist"), ("type", "user_id"), ("value", "alice")]),
    ("/ui/bans/lift", &[("rule_id", "login"), ("identifier", "alice")]),
    ("/ui/keys/create", &[("name", "x")]),
    ("/ui/keys/remove", &[("key_id", "x")]),
    ("/ui/tokens/create", &[("role", "admin")]),
    ("/ui/tokens/revoke", &[("token_id", "x")]),
];

fn start() -> Server {
    let server = Server::start(&Setup::default());
    for rule in [
        r#"{"rule_id":"login","limit":2,"window":"1h","identifier_type":"user_id","applies_to":{"endpoints":["/login"]}}"#,
        r#"{"rule_id":"acme_api","limit":1,"window":"1h","identifier_type":"user_id","tenant":"acme"}"#,
        r#"{"rule_id":"globex_api","limit":1,"window":"1h","identifier_type":"user_id","tenant":"globex"}"#,
    ] {
        put_rule(&server, rule);
    }
    server
}

/// The policy, to see whether something was changed.
fn policy(server: &Server) -> String {
    server.get_as_admin("/api/v1/policy").text()
}

#[test]
fn a_viewer_sees_everything_but_tokens_and_changes_nothing() {
    let server = start();
    let (_, secret) = token(&server, r#"{"role":"viewer"}"#);
    let mut browser = Browser::signed_in(&server, &secret);
    let before = policy(&server);
    for path in PAGES {
        let page = browser.get(path);
        let expected = if *path == "/ui/new-rule" { 403 } else { 200 };
        assert_eq!(page.status, expected, "{path}: {page:?}");
        assert!(!page.text().contains("/ui/tokens/"), "{path}: {page:?}");
    }
    for (path, fields) in FORMS {
        let refused = browser.post(path, fields);
        assert_eq!(refused.status, 403, "{path}: {refused:?}");
    }
    assert_eq!(policy(&server), before);
    let tokens = server.get_as_admin("/api/v1/tokens").json();
    assert_eq!(tokens["tokens"].as_array().map(Vec::len), Some(1), "{tokens}");
}

#[test]
fn an_operator_changes_rules_and_sees_no_tokens() {
    let server = start();
    let (_, secret) = token(&server, r#"{"role":"operator"}"#);
    let mut browser = Browser::signed_in(&server, &secret);
    assert_eq!(browser.post("/ui/rules/login/state", &[("state", "shadow")]).status, 303);
    assert!(!browser.get("/ui/keys").text().contains("/ui/tokens/"));
    assert_eq!(browser.post("/ui/tokens/create", &[("role", "admin")]).status, 403);
    assert_eq!(browser.get("/ui/audit?kind=token").status, 200);
    assert!(!browser.get("/ui/audit").text().contains(">token<"));
}

#[test]
fn a_tenant_sees_and_changes_its_own_on_every_page() {
    let server = start();
    let (_, secret) = token(&server, r#"{"role":"tenant-admin","tenant":"acme"}"#);
    let mut browser = Browser::signed_in(&server, &secret);
    // Both tenants have refusals.
    for tenant in ["acme", "globex"] {
        for _ in 0..3 {
            let body = format!(
                r#"{{"identifiers":{{"user_id":"user-of-{tenant}","tenant":"{tenant}"}}}}"#
            );
            server.ask("POST", CHECK, &[JSON], &body);
        }
    }
    let mut admin = Browser::admin(&server);
    until("refusals of both", || {
        let text = admin.get("/ui/live").text();
        (text.contains("user-of-acme") && text.contains("user-of-globex")).then_some(())
    });
    for path in PAGES {
        let page = browser.get(path);
        assert!(matches!(page.status, 200 | 403 | 404), "{path}: {page:?}");
        let text = page.text();
        for foreign in ["globex", "default_per_ip", "/ui/rules/login\""] {
            assert!(!text.contains(foreign), "{path} shows {foreign}: {text}");
        }
    }
    for (path, status) in [
        ("/", 200),
        ("/ui/rules", 200),
        ("/ui/live", 200),
        ("/ui/audit", 200),
        ("/ui/lists", 200),
        ("/ui/rules/acme_api", 200),
        ("/ui/rules/globex_api", 404),
        ("/ui/rules/login", 404),
        ("/ui/clients", 403),
        ("/ui/client?type=user_id&value=user-of-globex", 403),
        ("/ui/try", 403),
        ("/ui/keys", 403),
        ("/ui/health", 403),
    ] {
        let page = browser.get(path);
        assert_eq!(page.status, status, "{path}: {page:?}");
    }
    assert!(browser.get("/ui/rules").text().contains("acme_api"));
    assert!(browser.get("/ui/live").text().contains("user-of-acme"));
    let navigation = browser.get("/").text();
    for hidden in ["/ui/keys", "/ui/health", "/ui/try", "/ui/clients"] {
        assert!(!navigation.contains(&format!("href=\"{hidden}\"")), "{hidden}");
    }
    let before = policy(&server);
    for (path, fields) in FORMS {
        let refused = browser.post(path, fields);
        assert!(matches!(refused.status, 403 | 404 | 405 | 422), "{path}: {refused:?}");
    }
    for path in [
        "/ui/rules/globex_api/delete",
        "/ui/rules/globex_api/rollback",
        "/ui/rules/acme_api/delete",
    ] {
        let refused = browser.post(path, &[("revision", "3")]);
        assert!(matches!(refused.status, 403 | 404), "{path}: {refused:?}");
    }
    assert_eq!(policy(&server), before, "operators wrote all of it");
    let own = "rule_id: acme.own\nlimit: 1\nwindow: 1m\nidentifier_type: user_id\ntenant: acme\n";
    let fields = [("do", "save"), ("mode", "yaml"), ("yaml", own)];
    let made = browser.post("/ui/new-rule", &fields);
    assert_eq!(made.status, 303, "{made:?}");
    let deleted = browser.post("/ui/rules/acme.own/delete", &[]);
    assert_eq!(deleted.status, 303, "{deleted:?}");
}

/// Checks a request of a user of tenant acme twice, so that the second is refused.
fn refuse(server: &Server, user: &str, endpoint: &str) -> String {
    let body = format!(
        r#"{{"identifiers":{{"user_id":"{user}","tenant":"acme"}},"endpoint":"{endpoint}"}}"#
    );
    let answers: Vec<_> =
        (0..4).map(|_| server.ask("POST", CHECK, &[JSON], &body).json()).collect();
    let refused = answers.iter().find(|it| it["allowed"] == false);
    refused.expect("a refusal")["decision_id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_tenant_reads_its_decisions_as_far_as_its_own_rules_go() {
    let server = start();
    put_rule(
        &server,
        r#"{"rule_id":"secret_of_operators","limit":0,"window":"1h","identifier_type":"user_id","applies_to":{"endpoints":["/hidden"]}}"#,
    );
    let (_, secret) = token(&server, r#"{"role":"tenant-admin","tenant":"acme"}"#);
    let (_, other) = token(&server, r#"{"role":"tenant-admin","tenant":"globex"}"#);
    let by_own = refuse(&server, "ann", "/orders");
    let by_operators = refuse(&server, "bob", "/hidden");
    let log = "/api/v1/audit/decisions?limit=1000";
    until("both are in the log", || {
        let text = server.get_as_admin(log).text();
        (text.contains(&by_own) && text.contains(&by_operators)).then_some(())
    });
    let mut browser = Browser::signed_in(&server, &secret);
    let list = browser.get("/ui/audit?log=decisions").text();
    assert!(list.contains(&format!("/ui/decisions/{by_own}")), "rows lead somewhere: {list}");
    assert!(!list.contains("secret_of_operators") && !list.contains("/ui/client"), "{list}");
    let own = browser.get(&format!("/ui/decisions/{by_own}"));
    assert_eq!(own.status, 200, "{own:?}");
    assert!(own.text().contains("rule acme_api was exceeded"), "{own:?}");
    let foreign = browser.get(&format!("/ui/decisions/{by_operators}"));
    assert_eq!(foreign.status, 200, "{foreign:?}");
    let text = foreign.text();
    assert!(text.contains("a rule of the operators was exceeded"), "{text}");
    for page in [own.text(), text] {
        for hidden in ["secret_of_operators", "login", "default_per", "/ui/try", "/ui/client"] {
            assert!(!page.contains(hidden), "{hidden}: {page}");
        }
    }
    let mut others = Browser::signed_in(&server, &other);
    for id in [&by_own, &by_operators] {
        assert_eq!(others.get(&format!("/ui/decisions/{id}")).status, 404, "{id}");
    }
    let listed = others.get("/ui/rules").text();
    assert!(listed.contains("globex_api"), "{listed}");
}

#[test]
fn a_tenant_without_rules_reads_that_operators_have_some() {
    let server = start();
    let (_, secret) = token(&server, r#"{"role":"tenant-admin","tenant":"initech"}"#);
    let page = Browser::signed_in(&server, &secret).get("/ui/rules").text();
    assert!(page.contains("Rules of operators apply to initech too"), "{page}");
    assert!(!page.contains("Every request passes"), "{page}");
    let (_, secret) = token(&server, r#"{"role":"viewer"}"#);
    let page = Browser::signed_in(&server, &secret).get("/ui/rules?q=nothing").text();
    assert!(page.contains("No rule fits"), "{page}");
}
