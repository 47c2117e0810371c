//! The history of a policy over the API: revisions, the policy at one, the difference of two, and the way back.

use serde_json::{Value, json};

use super::desk::{TestServer, step};
use tollgate_e2e::server::ADMIN_TOKEN;

const REVISIONS: &str = "/api/v1/policy/revisions";

fn rule(id: &str, limit: u64) -> String {
    json!({"rule_id": id, "limit": limit, "window": "1m", "identifier_type": "user_id"}).to_string()
}

/// The newest revision.
fn newest(server: &TestServer) -> u64 {
    let list = server.read(&format!("{REVISIONS}?limit=1"));
    list["revisions"][0]["revision"].as_u64().unwrap_or_else(|| panic!("no revision in {list}"))
}

fn limit_of(server: &TestServer, rule_id: &str) -> Value {
    server.read(&format!("/api/v1/rules/{rule_id}"))["limit"].clone()
}

#[test]
fn a_policy_is_listed_shown_compared_and_rolled_back() {
    let server = TestServer::open();
    server.prepare("POST", "/api/v1/rules", &rule("search", 10));
    let first = newest(&server);
    server.prepare("PATCH", "/api/v1/rules/search", r#"{"limit":20}"#);
    let listed = r#"{"identifier_type":"user_id","identifier":"eve"}"#;
    server.prepare("POST", "/api/v1/blacklist", listed);
    let third = newest(&server);
    assert_eq!(third, first + 2);

    let list = server.read(&format!("{REVISIONS}?limit=2"));
    let revisions = list["revisions"].as_array().expect("a list");
    assert_eq!(revisions[0]["summary"], "blacklist user_id eve created");
    assert_eq!(revisions[1]["summary"], "rule search updated (limit 10 -> 20)");
    assert_eq!((&revisions[1]["actor"], &revisions[1]["role"]), (&json!("admin"), &json!("admin")));
    let page = server.as_admin("GET", &format!("{REVISIONS}?limit=2"), "");
    let next = format!("<{REVISIONS}?limit=2&before={}>; rel=\"next\"", first + 1);
    assert_eq!(page.header("link"), Some(next.as_str()));
    let before = server.read(&format!("{REVISIONS}?before={first}&limit=1000"));
    assert_eq!(before["revisions"][0]["revision"], json!(first - 1));

    let shown = server.read(&format!("{REVISIONS}/{first}"));
    let rules = shown["rules"].as_array().expect("rules");
    let search = rules.iter().find(|it| it["rule_id"] == "search").expect("the rule");
    assert_eq!((&search["limit"], &shown["blacklist"]), (&json!(10), &Value::Null));
    assert_eq!(server.read(&format!("{REVISIONS}/{third}")), server.read("/api/v1/policy"));

    let diff = server.read(&format!("{REVISIONS}/{first}/diff"));
    assert_eq!((&diff["from"], &diff["to"]), (&json!(first), &json!(third)));
    let actions: Vec<_> =
        diff["changes"].as_array().expect("changes").iter().map(|it| &it["action"]).collect();
    assert_eq!(actions, ["update", "create"]);
    let back = server.read(&format!("{REVISIONS}/{third}/diff?to={first}"));
    assert_eq!(back["changes"][0]["becomes"]["limit"], 10);

    let path = format!("{REVISIONS}/{first}/rollback");
    let trial = server.as_admin("POST", &format!("{path}?dry_run=true"), "");
    assert_eq!((trial.status, newest(&server)), (200, third));
    let sorted = |changes: &Value| {
        let mut all: Vec<String> =
            changes["changes"].as_array().expect("a list").iter().map(Value::to_string).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&trial.json()), sorted(&back));
    let etag = trial.header("etag").expect("a tag").to_owned();
    server.prepare("POST", "/api/v1/rules", &rule("meanwhile", 1));
    let stale = server.call(ADMIN_TOKEN, &step("POST", &path, "").when("If-Match", &etag));
    assert_eq!((stale.status, stale.code().as_str()), (412, "changed_meanwhile"));
    let done = server.prepare("POST", &path, "");
    assert_eq!(done["revision"], json!(third + 2));
    assert_eq!(limit_of(&server, "search"), 10);
    let all = server.read("/api/v1/policy");
    assert_eq!(all, server.read(&format!("{REVISIONS}/{first}")));
    let list = server.read(&format!("{REVISIONS}?limit=1"));
    assert_eq!(list["revisions"][0]["note"], json!(format!("rollback to revision {first}")));
    let audit = server.read("/api/v1/audit?kind=rule&entry=search&limit=1");
    assert_eq!(audit["records"][0]["becomes"]["limit"], 10, "{audit}");
    // In force at once.
    let check = r#"{"rule_id":"search","key_type":"user","key_value":"u1"}"#;
    let checked = server.prepare("POST", "/api/v1/rate-limit/check", check);
    assert_eq!(checked["limit"], 10);
}

#[test]
fn revisions_that_do_not_exist_are_refused() {
    let server = TestServer::open();
    server.prepare("POST", "/api/v1/rules", &rule("search", 10));
    let newest = newest(&server);
    let range = format!("there are 1 to {newest}");
    for path in ["99", "99/diff", "1/diff?to=99", "0"] {
        server.check(&[(step("GET", &format!("{REVISIONS}/{path}"), ""), 404, &range)]);
    }
    server.check(&[
        (step("POST", &format!("{REVISIONS}/99/rollback"), ""), 404, "unknown_revision"),
        (step("GET", &format!("{REVISIONS}/x"), ""), 400, "is a number like 12, not `x`"),
        (step("GET", &format!("{REVISIONS}/-1/diff"), ""), 400, "invalid_revision"),
        (step("GET", &format!("{REVISIONS}/1/diff?to=1e3"), ""), 400, "to is a number"),
        (step("GET", &format!("{REVISIONS}?before=18446744073709551615"), ""), 400, "before is a"),
        (step("GET", &format!("{REVISIONS}/1?detail=true"), ""), 400, "this call takes none"),
        (step("POST", &format!("{REVISIONS}/1/rollback?dry_run=maybe"), ""), 400, "true or false"),
    ]);
}

#[test]
fn a_tenant_admin_sees_and_rolls_back_its_own_entries_alone() {
    let server = TestServer::open();
    let acme = server.token("tenant-admin", Some("acme"));
    let own = |limit: u64| {
        json!({"rule_id": "acme.own", "tenant": "acme", "limit": limit, "window": "1m", "identifier_type": "user_id"})
            .to_string()
    };
    let as_acme =
        |method: &str, path: &str, body: &str| server.call(&acme, &step(method, path, body));
    assert_eq!(as_acme("POST", "/api/v1/rules", &own(1)).status, 201);
    let first = newest(&server);
    server.prepare("POST", "/api/v1/rules", &rule("operators", 5));
    assert_eq!(as_acme("POST", "/api/v1/rules", &own(2)).status, 200);
    let seen = as_acme("GET", REVISIONS, "").json();
    let seen: Vec<_> =
        seen["revisions"].as_array().expect("a list").iter().map(|it| &it["summary"]).collect();
    assert_eq!(seen, ["rule acme.own updated (limit 1 -> 2)", "rule acme.own created"]);
    let shown = as_acme("GET", &format!("{REVISIONS}/{first}"), "").json();
    assert_eq!(shown["rules"].as_array().map(Vec::len), Some(1), "{shown}");
    let diff = as_acme("GET", &format!("{REVISIONS}/{first}/diff"), "").json();
    assert_eq!(diff["changes"].as_array().map(Vec::len), Some(1), "{diff}");
    let done = as_acme("POST", &format!("{REVISIONS}/{first}/rollback"), "");
    assert_eq!((done.status, done.json()["changes"].as_array().map(Vec::len)), (200, Some(1)));
    assert_eq!(
        (limit_of(&server, "acme.own"), limit_of(&server, "operators")),
        (json!(1), json!(5))
    );
}
