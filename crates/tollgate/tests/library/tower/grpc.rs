//! The layer in front of a gRPC service, with a server and a client of tonic.

use std::time::Duration;

use tollgate::identity::{Extractor, IdentityConfig};
use tollgate::tower::RateLimitLayer;
use tollgate::{ManualClock, MemoryStore};
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

use crate::tower::{layer, limiter};

const POLICY: &str = "
rules:
  - {rule_id: per_user, limit: 1, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: per_address, limit: 100, window: 1m, identifier_type: ip, algorithm: fixed_window}
blacklist: [{identifier_type: user_id, identifier: mallory}]
";

/// A client of a health service behind a layer.
async fn connect(layer: RateLimitLayer<MemoryStore, ManualClock>) -> HealthClient<Channel> {
    let layer = layer
        .client_address(|parts| Some(parts.extensions.get::<TcpConnectInfo>()?.remote_addr?.ip()));
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = format!("http://{}", incoming.local_addr().expect("an address"));
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));
    let channel = Channel::from_shared(address).expect("an address");
    HealthClient::new(channel.connect().await.expect("a connection"))
}

/// Calls with metadata.
async fn call(
    client: &mut HealthClient<Channel>,
    metadata: &[(&'static str, &'static str)],
) -> Result<MetadataMap, Status> {
    let mut request = Request::new(HealthCheckRequest::default());
    for (name, value) in metadata {
        request.metadata_mut().append(*name, AsciiMetadataValue::from_static(value));
    }
    Ok(client.check(request).await?.metadata().clone())
}

#[tokio::test]
async fn allowed_calls_have_the_fields() {
    let mut client = connect(layer(limiter(POLICY))).await;
    let metadata = call(&mut client, &[("x-user", "u")]).await.expect("it passes");
    assert_eq!(metadata.get("x-ratelimit-limit").expect("a field"), "1");
    let metadata = call(&mut client, &[]).await.expect("it passes");
    assert_eq!(metadata.get("x-ratelimit-limit").expect("a field"), "100", "by its address");
}

#[tokio::test]
async fn rules_see_the_host_and_the_method() {
    let policy = "
rules:
  - {rule_id: watch, limit: 7, window: 1m, identifier_type: global, applies_to: {endpoints: [/grpc.health.v1.Health/Watch]}}
  - {rule_id: check, limit: 8, window: 1m, identifier_type: global, applies_to: {hosts: [127.0.0.1], endpoints: [/grpc.health.v1.Health/Check]}}
  - {rule_id: other, limit: 9, window: 1m, identifier_type: global, applies_to: {hosts: [example.com]}}
";
    let mut client = connect(layer(limiter(policy))).await;
    let metadata = call(&mut client, &[]).await.expect("it passes");
    assert_eq!(metadata.get("ratelimit-policy").expect("a field"), "\"check\";q=8;w=60");
}

#[tokio::test]
async fn refusals_have_the_codes_of_grpc() {
    let mut client = connect(layer(limiter(POLICY))).await;
    call(&mut client, &[("x-user", "u")]).await.expect("it passes");
    let limited = call(&mut client, &[("x-user", "u")]).await.expect_err("a refusal");
    assert_eq!(limited.code(), Code::ResourceExhausted);
    assert_eq!(limited.message(), "the limit of rule per_user is reached");
    assert_eq!(limited.metadata().get("retry-after").expect("a field"), "60");
    assert_eq!(limited.metadata().get("x-ratelimit-remaining").expect("a field"), "0");
    let retry = limited.get_details_retry_info().expect("details");
    assert_eq!(retry.retry_delay, Some(Duration::from_secs(60)));

    let denied = call(&mut client, &[("x-user", "mallory")]).await.expect_err("a refusal");
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert_eq!(denied.message(), "this client is not allowed here");
    assert_eq!(denied.details(), b"", "waiting does not help");
}

#[tokio::test]
async fn a_missing_identifier_names_its_rule() {
    let policy = "
rules: [{rule_id: keyed, limit: 9, window: 1m, identifier_type: api_key, on_missing: deny}]
";
    let mut client = connect(layer(limiter(policy))).await;
    let denied = call(&mut client, &[]).await.expect_err("a refusal");
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert_eq!(denied.message(), "rule keyed needs to know who is asking");
}

#[tokio::test]
async fn contradicting_credentials_are_the_callers_mistake() {
    let extractor = Extractor::new(IdentityConfig::default()).expect("settings");
    let mut client = connect(RateLimitLayer::new(limiter(POLICY)).identify(extractor)).await;
    let keys = [("x-api-key", "a"), ("x-api-key", "b")];
    let refused = call(&mut client, &keys).await.expect_err("a refusal");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("they differ: send one"), "{}", refused.message());
}

#[tokio::test]
async fn long_waits_are_written_in_full() {
    let policy = "
rules: [{rule_id: yearly, limit: 1, window: 366d, identifier_type: global, algorithm: gcra}]
";
    let mut client = connect(layer(limiter(policy))).await;
    call(&mut client, &[]).await.expect("it passes");
    let limited = call(&mut client, &[]).await.expect_err("a refusal");
    let retry = limited.get_details_retry_info().expect("details");
    assert_eq!(retry.retry_delay, Some(Duration::from_secs(31_622_400)));
}
