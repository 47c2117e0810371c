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
