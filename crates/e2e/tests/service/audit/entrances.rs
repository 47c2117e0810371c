//! Decisions of every entry point are logged.

use std::fs;

use serde_json::json;

use super::{DECISIONS, OFTEN, brief, put_policy, rule, settled};
use tollgate_e2e::grpc::{CHECK_BATCH, CHECK_RATE_LIMIT, Client, GET_REMAINING_QUOTA, request};
use tollgate_e2e::server::{AUTHORIZE, CHECK, JSON, Server, Setup};

const ENVOY: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 0}
  - key: database
    rate_limit: {unit: year, requests_per_unit: 0}
";

#[test]
fn decisions_of_every_entry_point_are_logged() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("ratelimit");
    fs::create_dir(&directory).expect("a directory");
    fs::write(directory.join("shop.yaml"), ENVOY).expect("written");
    let settings = format!("{OFTEN}\naudit: {{sample_allowed: 0}}\nidentity: {{api_keys: any}}");
    let path = directory.to_str().expect("a readable path");
    let arguments = ["--envoy-config", path, "--catalog", "sqlite:tollgate.db"];
    let setup = Setup { settings: &settings, arguments: &arguments, ..Setup::default() };
    let server = Server::start_in(folder, &setup);
    let by_key =
        json!({"rule_id": "keys", "limit": 0, "window": "1h", "identifier_type": "api_key"});
    put_policy(&server, &json!({"rules": [rule("users", 0), by_key]}));
    let mut client = Client::of(&server);

    let check =
        |user: &str| json!({"identifiers": {"user_id": user}, "endpoint": "/a", "method": "PUT"});
    assert_eq!(server.post(CHECK, &check("http").to_string()).status, 200);
    let once = [JSON, ("X-Idempotency-Key", "1")];
    for _ in 0..2 {
        assert_eq!(server.ask("POST", CHECK, &once, &check("once").to_string()).status, 200);
    }
    let batch = json!({"checks": [check("batch 1"), check("batch 2")]}).to_string();
    assert_eq!(server.post("/api/v1/rate-limit/check/batch", &batch).status, 200);
    let asked =
        [("X-API-Key", "k"), ("X-Original-URI", "/b?secret"), ("X-Original-Method", "POST")];
    assert_eq!(server.ask("GET", AUTHORIZE, &asked, "").status, 429);
    let answer = client.call(CHECK_RATE_LIMIT, &json!({"identifier": "grpc", "endpoint": "/c"}));
    assert_eq!(answer["allowed"], false);
    client.call(GET_REMAINING_QUOTA, &json!({"identifier": "a look"}));
    let checks =
        json!({"checks": [{"identifier": "grpc batch 1"}, {"identifier": "grpc batch 2"}]});
    client.call(CHECK_BATCH, &checks);
    client.should_rate_limit(&request("shop", &[&["database=orders"]]));
    client.should_rate_limit(&request("shop", &[&["nothing=x"], &["user=envoy"]]));
    client.should_rate_limit(&request("other", &[&["path=/d?q"], &["user_id=own", "path=/e?q"]]));
    let json =
        json!({"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "json"}]}]});
    assert_eq!(server.post("/json", &json.to_string()).status, 429);

    let mut kept = settled(&server, DECISIONS, 13);
    kept.reverse();
    let fields = ["client", "rule_id", "action", "method", "endpoint", "domain"];
    #[rustfmt::skip]
    assert_eq!(brief(&kept, &fields), [
        "http users refused PUT /a -",
        "once users refused PUT /a -",
        // A refused call is checked again under its idempotency key.
        "once users refused PUT /a -",
        "batch 1 users refused PUT /a -",
        "batch 2 users refused PUT /a -",
        "sha256:8254c329a928 keys refused POST /b -",
        "grpc users refused - /c -",
        "grpc batch 1 users refused - - -",
        "grpc batch 2 users refused - - -",
        "orders shop.database refused - - shop",
        "envoy shop.user refused - - shop",
        "own users refused - /e other",
        "json shop.user refused - - shop",
    ]);
    let ids: std::collections::BTreeSet<String> =
        brief(&kept, &["decision_id"]).into_iter().collect();
    assert_eq!(ids.len(), kept.len(), "each has its own id");
    assert_eq!(kept[9]["identifiers"], json!({"database": "orders"}));
    assert_eq!(kept[5]["identifiers"]["ip"], "127.0.0.1");
}
