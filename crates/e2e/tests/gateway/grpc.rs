//! Calls of gRPC through the gateway: HTTP/2 on both sides, the status in trailers.

use serde_json::json;

use crate::gateway::{Gateway, NO_RULES};
use tollgate_e2e::grpc::{CHECK_RATE_LIMIT, Client, HEALTH};
use tollgate_e2e::server::{Server, Setup};

#[test]
fn calls_and_their_failures_pass() {
    let upstream = Server::start(&Setup { rules: Some(NO_RULES), ..Setup::default() });
    let gateway = Gateway::start(NO_RULES, "", &[format!("h2c://{}", upstream.grpc_address)]);
    let mut client = Client::at(gateway.address);
    let health = client.call(HEALTH, &json!({}));
    assert_eq!(health["status"], "SERVING", "{health}");
    let failure = client.fail(CHECK_RATE_LIMIT, &json!({"rule_id": "none"}));
    assert_eq!(failure.code, "NOT_FOUND", "{failure:?}");
    assert_eq!(failure.detail, "there is no rule `none`");
}

#[test]
fn a_refusal_is_one_of_grpc() {
    let upstream = Server::start(&Setup { rules: Some(NO_RULES), ..Setup::default() });
    let rules = "rules: [{rule_id: one, limit: 1, window: 1h, identifier_type: global}]";
    let gateway = Gateway::start(rules, "", &[format!("h2c://{}", upstream.grpc_address)]);
    let mut client = Client::at(gateway.address);
    client.call(HEALTH, &json!({}));
    let failure = client.fail(HEALTH, &json!({}));
    assert_eq!(failure.code, "RESOURCE_EXHAUSTED", "{failure:?}");
    assert_eq!(failure.detail, "the limit of rule one is reached");
}
