//! A tenant's administrator does not see what belongs to others, and changes only what it wrote.

use serde_json::{Value, json};

use super::desk::{Step, TestServer, step};

/// What operators wrote about all clients, and about one tenant.
const POLICY: &str = r#"{
  "rules": [
    {"rule_id": "shared", "limit": 100, "window": "1h", "identifier_type": "user_id"},
    {"rule_id": "globex_api", "limit": 20, "window": "1h", "identifier_type": "user_id", "tenant": "globex"}
  ],
  "tiers": [{"tier": "free", "default": true}],
  "clients": [{"identifier_type": "user_id", "identifier": "hank", "tier": "free"}],
  "overrides": [
    {"rule_id": "shared", "identifier_type": "user_id", "identifier": "hank", "limit": 1},
    {"rule_id": "globex_api", "identifier_type": "user_id", "identifier": "hank", "limit": 7}
  ],
  "whitelist": [{"identifier_type": ["tenant", "user_id"], "identifier": ["globex", "hank"]}],
  "blacklist": [
    {"identifier_type": "user_id", "identifier": "mallory"},
    {"identifier_type": ["tenant", "user_id"], "identifier": ["globex", "jerry"]}
  ]
}"#;

/// What administrators of one tenant wrote.
const OWN: &str = r#"{
  "rules": [
    {"rule_id": "acme.api", "limit": 10, "window": "1h", "identifier_type": "user_id", "tenant": "acme"}
  ],
  "overrides": [
    {"rule_id": "acme.api", "identifier_type": "user_id", "identifier": "wile", "limit": 5}
  ],
  "blacklist": [{"identifier_type": ["tenant", "user_id"], "identifier": ["acme", "tom"]}]
}"#;

fn open() -> (TestServer, String) {
    let desk = TestServer::open();
    desk.prepare("PUT", "/api/v1/policy?prune=rules", POLICY);
    let token = desk.token("tenant-admin", Some("acme"));
    let own = desk.call(&token, &step("PUT", "/api/v1/policy", OWN));
    assert_eq!(own.status, 200, "{own:?}");
    (desk, token)
}

#[test]
fn a_tenant_sees_only_its_own_entries() {
    let (desk, token) = open();
    let check = |path: &str, list: &str, expected: Value| {
        let answer = desk.call(&token, &step("GET", path, ""));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let told = answer.text();
        for secret in ["globex", "shared", "hank", "mallory", "jerry"] {
            assert!(!told.contains(secret), "{path} tells of {secret}: {told}");
        }
        assert_eq!(answer.json()[list], expected, "{path}");
    };
    let rule = json!({"rule_id": "acme.api", "limit": 10, "window": "1h",
        "identifier_type": "user_id", "tenant": "acme"});
    let exception = json!({"rule_id": "acme.api", "identifier_type": "user_id",
        "identifier": "wile", "limit": 5});
    let listed = json!({"identifier_type": ["tenant", "user_id"], "identifier": ["acme", "tom"]});
    for family in ["/api/v1", "/admin/api/v1/rate-limits"] {
        for query in ["", "?tenant=globex", "?limit=1"] {
            check(&format!("{family}/rules{query}"), "rules", json!([rule]));
            check(&format!("{family}/blacklist{query}"), "blacklist", json!([listed]));
            check(&format!("{family}/whitelist{query}"), "whitelist", json!([]));
        }
    }
    for query in ["", "?tenant=globex", "?identifier_type=user_id"] {
        check(&format!("/api/v1/overrides{query}"), "overrides", json!([exception]));
    }
    for query in ["?rule_id=globex_api", "?identifier=hank", "?rule_id=shared"] {
        check(&format!("/api/v1/overrides{query}"), "overrides", json!([]));
    }
    for path in ["/api/v1/audit", "/api/v1/audit?tenant=globex", "/api/v1/bans"] {
        let told = desk.call(&token, &step("GET", path, "")).text();
        assert!(!told.contains("globex") && !told.contains("hank"), "{path}: {told}");
    }
    let policy = desk.call(&token, &step("GET", "/api/v1/policy", ""));
    let own = json!({"rules": [rule], "overrides": [exception], "blacklist": [listed]});
    assert_eq!(policy.json(), own);
}

/// Two calls that differ in a name, one of another tenant and one that does not exist: the responses are
/// the same, and nothing is changed.
#[test]
fn entries_of_other_tenants_look_missing() {
    let (desk, token) = open();
    let before = desk.read("/api/v1/policy");
    let check = |method: &str, path: &str, body: &str, statuses: &[u16]| {
        for (name, value) in
            [("Accept", "*/*"), ("If-Match", "*"), ("If-None-Match", "*"), ("If-Match", "\"1\"")]
        {
            for dry_run in ["", "dry_run=true"] {
                let told = ["globex", "zenith"].map(|whose| {
                    let join = if path.contains('?') { "&" } else { "?" };
                    let path = format!("{path}{join}{dry_run}").replace("OTHER", whose);
                    let path = path.trim_end_matches(['?', '&']);
                    let body = body.replace("OTHER", whose);
                    let step: Step<'_> = step(method, path, &body).when(name, value);
                    let answer = desk.call(&token, &step);
                    let place = format!("{method} {path} {name}: {value}: {answer:?}");
                    assert!(statuses.contains(&answer.status), "{place}");
                    (answer.status, answer.text().replace(whose, "OTHER"))
                });
                assert_eq!(told[0], told[1], "{method} {path} {name}: {value}");
            }
        }
    };
    check("GET", "/api/v1/rules/OTHER_api", "", &[400, 404]);
    check("PATCH", "/api/v1/rules/OTHER_api", r#"{"limit": 1}"#, &[404]);
    check("DELETE", "/api/v1/rules/OTHER_api", "", &[404]);
    let rule = r#"{"rule_id": "OTHER_api", "limit": 1, "window": "1h", "identifier_type": "user_id", "tenant": "acme"}"#;
    check("PUT", "/api/v1/rules/OTHER_api", rule, &[403]);
    check("POST", "/api/v1/rules", rule, &[403]);
    for conditions in [[("Accept", "*/*")], [("If-Match", "\"1\"")]] {
        let told = ["globex_api", "zenith_api"].map(|id| {
            let document = format!(r#"{{"rules": [{}]}}"#, rule.replace("OTHER_api", id));
            let step = step("PUT", "/api/v1/policy?dry_run=true", &document);
            let answer = desk.call(&token, &step.when(conditions[0].0, conditions[0].1));
            (answer.status, answer.text().replace(id, "OTHER"))
        });
        assert_eq!(told[0], told[1]);
    }
    let exception = |rule: &str| {
        format!(
            r#"{{"rule_id": "{rule}", "identifier_type": "user_id", "identifier": "hank", "limit": 9}}"#
        )
    };
    check("PUT", "/api/v1/overrides", &exception("OTHER_api"), &[403]);
    let query = "identifier_type=user_id&identifier=hank";
    check("DELETE", &format!("/api/v1/overrides?rule_id=OTHER_api&{query}"), "", &[404]);
    for list in ["whitelist", "blacklist"] {
        let path = format!("/api/v1/{list}");
        let user = if list == "whitelist" { "hank" } else { "jerry" };
        let body = format!(
            r#"{{"identifier_type": ["tenant", "user_id"], "identifier": ["OTHER", "{user}"]}}"#
        );
        check("POST", &path, &body, &[403]);
        let query = format!(
            "identifier_type=tenant&identifier_type=user_id&identifier=OTHER&identifier={user}"
        );
        check("DELETE", &format!("{path}?{query}"), "", &[404]);
    }
    assert_eq!(desk.read("/api/v1/policy"), before, "nothing was changed");
}

#[test]
fn a_tenant_cannot_write_entries_of_others() {
    let (desk, token) = open();
    let before = desk.read("/api/v1/policy");
    let rule = |id: &str, tenant: &str, more: &str| {
        format!(
            r#"{{"rule_id": "{id}", "limit": 1, "window": "1h", "identifier_type": "user_id"{tenant}{more}}}"#
        )
    };
    let acme = r#", "tenant": "acme""#;
    let policy = |list: &str, entry: &str| format!(r#"{{"rules": [], "{list}": [{entry}]}}"#);
    let alone = |rule: &str| format!(r#"{{"rules": [{rule}]}}"#);
    let check = |method: &str, path: &str, body: &str| {
        for dry_run in [false, true] {
            let join = if path.contains('?') { "&" } else { "?" };
            let path = if dry_run { format!("{path}{join}dry_run=true") } else { path.to_owned() };
            let answer = desk.call(&token, &step(method, &path, body));
            let place = format!("{method} {path} {body}: {answer:?}");
            assert_eq!((answer.status, answer.code().as_str()), (403, "other_tenant"), "{place}");
            assert!(!answer.text().contains("hank"), "{place}");
        }
    };
    check("POST", "/api/v1/rules", &rule("new", "", ""));
    check("POST", "/api/v1/rules", &rule("acme.new", "", ""));
    check("POST", "/api/v1/rules", &rule("new", r#", "tenant": "globex""#, ""));
    check("POST", "/api/v1/rules", &rule("acme.api", "", ""));
    check("POST", "/api/v1/rules", &rule("shared", acme, ""));
    check("POST", "/api/v1/rules", &rule("globex_api", acme, ""));
    check("PUT", "/api/v1/rules/globex_api", &rule("globex_api", acme, ""));
    check("POST", "/api/v1/rules", &rule("acme.new", acme, r#", "replaces": ["shared"]"#));
    check("PATCH", "/api/v1/rules/acme.api", r#"{"tenant": "globex"}"#);
    check("PATCH", "/api/v1/rules/acme.api", r#"{"tenant": null}"#);
    let of_all = r#"{"identifier_type": "user_id", "identifier": "tom"}"#;
    let own = r#"{"identifier_type": ["tenant", "user_id"], "identifier": ["acme", "tom"]}"#;
    check("POST", "/api/v1/blacklist", of_all);
    check("POST", "/api/v1/whitelist", of_all);
    // It would lift limits of other tenants, too.
    check("POST", "/api/v1/whitelist", own);
    check("PUT", "/api/v1/policy", &alone(&rule("globex_api", acme, "")));
    check("PUT", "/api/v1/policy", &alone(&rule("new", "", "")));
    check("PUT", "/api/v1/policy", &policy("tiers", r#"{"tier": "gold"}"#));
    check("PUT", "/api/v1/policy", &policy("whitelist", own));
    check("PUT", "/api/v1/policy", &policy("blacklist", of_all));
    let client = r#"{"identifier_type": "user_id", "identifier": "tom", "tier": "free"}"#;
    check("PUT", "/api/v1/policy", &policy("clients", client));
    let exception =
        r#"{"rule_id": "shared", "identifier_type": "user_id", "identifier": "tom", "limit": 9}"#;
    check("PUT", "/api/v1/policy", &policy("overrides", exception));
    assert_eq!(desk.read("/api/v1/policy"), before, "nothing was changed");
}

#[test]
fn a_tenant_writes_and_prunes_its_own_entries() {
    let (desk, token) = open();
    let check = |method: &str, path: &str, body: &str, status: u16| {
        let answer = desk.call(&token, &step(method, path, body));
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        answer
    };
    let own = r#"{"identifier_type": ["user_id", "tenant"], "identifier": ["tweety", "acme"]}"#;
    check("POST", "/api/v1/blacklist", own, 201);
    let query = "identifier_type=tenant&identifier=acme&identifier_type=user_id&identifier=tweety";
    check("DELETE", &format!("/api/v1/blacklist?{query}"), "", 204);
    check("DELETE", &format!("/api/v1/blacklist?{query}"), "", 404);
    let exception = r#"{"rule_id": "acme.api", "identifier_type": "user_id", "identifier": "hank", "limit": 2}"#;
    check("PUT", "/api/v1/overrides", exception, 201);
    let query = "rule_id=acme.api&identifier_type=user_id&identifier=hank";
    check("DELETE", &format!("/api/v1/overrides?{query}"), "", 204);
    check("PATCH", "/api/v1/rules/acme.api", r#"{"limit": 9}"#, 200);

    let lists = "rules,tiers,clients,overrides,whitelist,blacklist";
    let all = format!("/api/v1/policy?prune={lists}");
    let tried = check("PUT", &format!("{all}&dry_run=true"), r#"{"rules": []}"#, 200).json();
    let kinds: Vec<&Value> =
        tried["changes"].as_array().expect("changes").iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds.len(), 3, "{tried}");
    assert!(!tried.to_string().contains("globex"), "{tried}");
    check("PUT", &all, r#"{"rules": []}"#, 200);
    let left = desk.read("/api/v1/policy");
    assert!(!left.to_string().contains("acme"), "{left}");
    let count = |list: &str| left[list].as_array().map_or(0, Vec::len);
    let counts = ["rules", "tiers", "clients", "overrides", "whitelist", "blacklist"].map(count);
    assert_eq!(counts, [2, 1, 1, 2, 1, 2], "{left}");
}

/// The administrators of a tenant cannot lift what operators decided about it.
#[test]
fn a_tenant_admin_cannot_lift_what_operators_imposed() {
    let (desk, token) = open();
    let cap = r#"{"rule_id": "acme_cap", "limit": 2, "window": "1h", "identifier_type": "user_id",
        "tenant": "acme", "penalty": {"after": 1, "within_seconds": 60, "ban_seconds": 3600}}"#;
    desk.prepare("POST", "/api/v1/rules", cap);
    let override_of_cap = r#"{"rule_id": "acme_cap", "identifier_type": "user_id", "identifier": "tom", "limit": 1000000}"#;
    let blocked = r#"{"identifier_type": "tenant", "identifier": "acme", "reason": "did not pay"}"#;
    desk.prepare("POST", "/api/v1/blacklist", blocked);
    let before = desk.read("/api/v1/policy");
    let check = |method: &str, path: &str, body: &str| {
        for dry_run in ["", "dry_run=true"] {
            let join = if path.contains('?') { "&" } else { "?" };
            let path = format!("{path}{join}{dry_run}");
            let path = path.trim_end_matches(['?', '&']);
            let answer = desk.call(&token, &step(method, path, body));
            let place = format!("{method} {path} {body}: {answer:?}");
            assert_eq!((answer.status, answer.code().as_str()), (403, "read_only"), "{place}");
        }
    };
    check("DELETE", "/api/v1/blacklist?identifier_type=tenant&identifier=acme", "");
    check(
        "POST",
        "/api/v1/blacklist",
        r#"{"identifier_type": "tenant", "identifier": "acme", "expires_at": "2020-01-01T00:00:00Z"}"#,
    );
    check("PATCH", "/api/v1/rules/acme_cap", r#"{"limit": 1000000}"#);
    check("PATCH", "/api/v1/rules/acme_cap", r#"{"enabled": false}"#);
    check("PUT", "/api/v1/rules/acme_cap", &cap.replace("\"limit\": 2", "\"limit\": 9"));
    check("DELETE", "/api/v1/rules/acme_cap", "");
    check("PUT", "/api/v1/overrides", override_of_cap);
    let replacing = r#"{"rule_id": "acme.x", "limit": 1000000, "window": "1h", "identifier_type": "user_id", "tenant": "acme", "replaces": ["acme_cap"]}"#;
    check("POST", "/api/v1/rules", replacing);
    check("PUT", "/api/v1/policy", &format!(r#"{{"rules": [{replacing}]}}"#));
    let lifted =
        desk.call(&token, &step("DELETE", "/api/v1/bans?rule_id=acme_cap&identifier=tom", ""));
    assert_eq!((lifted.status, lifted.code().as_str()), (403, "read_only"), "{lifted:?}");
    assert_eq!(desk.read("/api/v1/policy"), before, "nothing was changed");
    // All of it is shown to the tenant, with its own entries marked.
    let read = |path: &str| desk.call(&token, &step("GET", path, "")).json();
    assert_eq!(read("/api/v1/rules/acme_cap")["limit"], 2);
    let rules = read("/api/v1/rules?detail=true");
    let marks: Vec<_> =
        rules["rules"].as_array().expect("rules").iter().map(|it| &it["written_by"]).collect();
    assert_eq!(marks, [&json!("tenant-admin"), &Value::Null], "{rules}");
    assert_eq!(read("/api/v1/blacklist")["blacklist"].as_array().map(Vec::len), Some(2));
    let prune = "/api/v1/policy?prune=rules,overrides,blacklist,whitelist&dry_run=true";
    let pruned = desk.call(&token, &step("PUT", prune, r#"{"rules": []}"#)).json();
    let names: Vec<_> = pruned["changes"]
        .as_array()
        .expect("changes")
        .iter()
        .map(|it| it["entry"].clone())
        .collect();
    assert_eq!(names.len(), 3, "{pruned}");
    assert!(
        !pruned.to_string().contains("did not pay") && !names.contains(&json!("acme_cap")),
        "{pruned}"
    );
}
