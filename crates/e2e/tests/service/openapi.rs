//! The service responds as described, checked by a fuzzer that reads the description.

use serde_json::Map;

use tollgate_e2e::program::schemathesis;
use tollgate_e2e::server::{ADMIN_TOKEN, Server, Setup};

/// `positive_data_acceptance` is left out: which fields belong together is more than the description
/// can say. `unsupported_method` too: forward-auth takes any method.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,response_headers_conformance,\
                      negative_data_rejection";

/// Runs a fuzzer on every call with a token.
pub(crate) fn fuzz(server: &Server, token: &str, arguments: &[&str]) {
    let output = schemathesis()
        .current_dir(server.folder())
        .args(["run", &server.url("/openapi.json"), "--checks", CHECKS])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--seed", "20260101", "--generation-database", "none"])
        .args(["--no-shrink", "--continue-on-failure", "--request-timeout", "10"])
        .args(arguments)
        .output()
        .expect("schemathesis runs");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    let description = server.get("/openapi.json").json();
    let paths = description["paths"].as_object().expect("paths").values();
    let calls: usize = paths.filter_map(|path| path.as_object().map(Map::len)).sum();
    assert!(calls > 10 && report.contains(&format!("Tested: {calls}")), "{calls} calls: {report}");
    assert!(!server.process.errors().contains("panicked"), "{}", server.process.errors());
}

#[test]
fn every_response_is_described() {
    let server = Server::start(&Setup {
        settings: "limits: {admin_reads_per_minute: 1000000, admin_writes_per_minute: 1000000}",
        ..Setup::default()
    });
    fuzz(&server, ADMIN_TOKEN, &["--max-examples", "10"]);
}

#[test]
fn the_page_begins_with_check_and_ends_with_aliases() {
    let server = Server::start(&Setup::default());
    let api = server.get("/openapi.json").json();
    assert_eq!(server.get("/docs/openapi.json").json(), api, "the page shows the same");
    let groups: Vec<&str> = api["tags"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| {
            assert!(group["description"].as_str().is_some_and(|about| about.len() > 20), "{group}");
            group["name"].as_str().expect("a name")
        })
        .collect();
    assert_eq!((groups[0], groups[groups.len() - 1]), ("check", "aliases"));
    for (path, calls) in api["paths"].as_object().expect("paths") {
        for (method, call) in calls.as_object().expect("calls") {
            let place = format!("{method} {path}");
            let group = call["tags"][0].as_str().expect("a group");
            assert!(groups.contains(&group), "{place}: {group} has no description");
            assert_eq!(group == "aliases", path.starts_with("/admin/"), "{place}: {group}");
            assert!(call["summary"].is_string(), "{place} has no summary");
            for (status, response) in call["responses"].as_object().expect("responses") {
                let problem = &response["content"]["application/problem+json"];
                if problem.is_object() && !path.contains("/authorize") {
                    assert_eq!(problem["example"]["status"].to_string(), *status, "{place}");
                }
            }
        }
    }
    let about = api["info"]["description"].as_str().expect("an introduction");
    assert!(
        about.contains("/api/v1/rate-limit/check") && about.contains("**Authorize**"),
        "{about}"
    );
    // A header that is only described cannot be tried.
    for (path, method) in [("/api/v1/rules/{rule_id}", "put"), ("/api/v1/policy", "put")] {
        let parameters = api["paths"][path][method]["parameters"].as_array().expect("parameters");
        let is_there = parameters.iter().any(|it| it["name"] == "If-Match" && it["in"] == "header");
        assert!(is_there, "{method} {path}");
    }
    let body = |path: &str, method: &str| {
        let content = &api["paths"][path][method]["requestBody"]["content"]["application/json"];
        let schema = content["schema"]["$ref"].as_str().expect("a schema");
        let schema = api.pointer(schema.trim_start_matches('#')).expect("a schema that is there");
        let properties = schema["properties"].as_object().expect("fields");
        properties.keys().cloned().collect::<Vec<_>>()
    };
    let shown = |path: &str, pointer: &str| {
        let content = &api["paths"][path]["get"]["responses"]["200"]["content"]["application/json"];
        content["schema"].pointer(pointer).and_then(|name| name.as_str()).map(str::to_owned)
    };
    let entry = |name: &str| Some(format!("#/components/schemas/{name}"));
    assert_eq!(shown("/api/v1/rules", "/properties/rules/items/$ref"), entry("RuleEntry"));
    assert_eq!(shown("/api/v1/rules/{rule_id}", "/$ref"), entry("RuleEntry"));
    assert_eq!(shown("/api/v1/policy", "/$ref"), entry("PolicyDocument"));
    assert!(body("/api/v1/rules", "post").contains(&"identifier_type".to_owned()));
    assert!(body("/api/v1/overrides", "put").contains(&"multiplier".to_owned()));
    assert!(body("/api/v1/blacklist", "post").contains(&"reason".to_owned()));
    assert!(body("/api/v1/policy", "put").contains(&"overrides".to_owned()));
    assert_eq!(body("/api/v1/tiers", "put"), ["tiers"]);
    let exception = body("/api/v1/users/{user_id}/override", "post");
    assert!(exception.contains(&"multiplier".to_owned()), "{exception:?}");
    assert!(!exception.contains(&"identifier".to_owned()), "the path names the user");
    // No body is described as any object.
    for (path, calls) in api["paths"].as_object().expect("paths") {
        for (method, call) in calls.as_object().expect("calls") {
            let body = &call["requestBody"]["content"]["application/json"]["schema"];
            assert_ne!(*body, serde_json::json!({"type": "object"}), "{method} {path}");
        }
    }
    for (path, method) in [("/api/v1/overrides", "put"), ("/api/v1/users/{user_id}/tier", "put")] {
        let made = &api["paths"][path][method]["responses"]["201"]["content"]["application/json"];
        let schema = made["schema"]["$ref"].as_str().expect("a schema").trim_start_matches('#');
        assert!(api.pointer(schema).expect("it")["properties"]["updated_by"].is_object(), "{path}");
    }
}
