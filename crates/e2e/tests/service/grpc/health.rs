//! Health checks and reflection, for load balancers and clients without definitions.

use std::fs;

use serde_json::json;

use tollgate_e2e::grpc::{CHECK_RATE_LIMIT, Client, HEALTH};
use tollgate_e2e::program::curl;
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;

const SERVICES: [&str; 4] =
    ["", "ratelimit", "tollgate.v1.RateLimiter", "envoy.service.ratelimit.v3.RateLimitService"];

#[test]
fn services_report_serving_until_shutdown_begins() {
    let settings = "limits: {shutdown_delay: 1h}";
    let mut server = Server::start(&Setup { settings, ..Setup::default() });
    let mut client = Client::of(&server);
    let mut watcher = Client::of(&server);
    for service in SERVICES {
        let status = client.call(HEALTH, &json!({ "service": service }));
        assert_eq!(status["status"], "SERVING", "{service:?}");
    }
    let failure = client.fail(HEALTH, &json!({"service": "tollgate.v9.Nothing"}));
    assert_eq!(failure.code, "NOT_FOUND", "{failure:?}");
    let probed = server.get("/healthcheck");
    assert_eq!((probed.status, probed.text().as_str()), (200, "OK"), "{probed:?}");
    let first = watcher.ask(&json!({"watch": "", "until": "NOT_SERVING"}));
    assert_eq!(first.expect("a state"), "SERVING");

    server.process.signal("TERM");
    assert_eq!(watcher.hear().expect("a state"), "NOT_SERVING");
    for service in SERVICES {
        until("a service that is ending", || {
            let status = client.call(HEALTH, &json!({ "service": service }));
            (status["status"] == "NOT_SERVING").then_some(())
        });
    }
    let answer = client.call(CHECK_RATE_LIMIT, &json!({"identifier": "ann"}));
    assert_eq!(answer["allowed"], true, "calls are answered until the delay has ended");
    assert_eq!(server.get("/healthcheck").status, 503);
    server.process.signal("TERM");
    assert_eq!(server.process.end().code(), Some(0), "{}", server.process.errors());
    let failure = client.fail(CHECK_RATE_LIMIT, &json!({"identifier": "ann"}));
    assert_eq!(failure.code, "UNAVAILABLE", "{failure:?}");
}

#[test]
fn the_server_describes_its_services() {
    let server = Server::start(&Setup::default());
    let mut client = Client::of(&server);
    let found = client.ask(&json!({"services": true})).expect("services");
    // The newer version of reflection, which the client does not know: field 7, and no text.
    let newer = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let listed = client.ask(&json!({"raw": newer, "bytes": "3a00"})).expect("services");
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    for service in SERVICES[2..].iter().chain(&["grpc.health.v1.Health"]) {
        let found = found.as_array().expect("a list");
        assert!(found.iter().any(|found| found == service), "no {service} in {found:?}");
        let listed = listed.as_str().expect("bytes");
        assert!(listed.contains(&hex(service)), "no {service} in {listed}");
    }
}

/// A `Watch` has no end, so it used to keep a server from ending for as long as `shutdown_grace`.
#[test]
fn open_streams_do_not_delay_the_end() {
    let settings = "limits: {shutdown_grace: 1h}";
    let mut server = Server::start(&Setup { settings, ..Setup::default() });
    let mut watchers = ["", "ratelimit", "unknown"].map(|service| {
        let mut watcher = Client::of(&server);
        let first = watcher.ask(&json!({"watch": service, "until": "no such state"}));
        let expected = if service == "unknown" { "SERVICE_UNKNOWN" } else { "SERVING" };
        assert_eq!(first.expect("a state"), expected);
        watcher
    });
    server.process.signal("TERM");
    assert_eq!(server.process.end().code(), Some(0), "{}", server.process.errors());
    for (watcher, is_known) in watchers.iter_mut().zip([true, true, false]) {
        if is_known {
            assert_eq!(watcher.hear().expect("a state"), "NOT_SERVING");
        }
        assert_eq!(watcher.hear().expect("the end of the stream"), json!(null));
    }
}

#[test]
fn unknown_names_do_not_end_streams() {
    let server = Server::start(&Setup::default());
    let mut client = Client::of(&server);
    let watched = client.ask(&json!({"watch_unknown": "tollgate.v9.Nothing"}));
    assert_eq!(watched.expect("a status"), json!(["SERVICE_UNKNOWN", true]));
    let symbols = [
        "tollgate.v9.Nothing",
        "tollgate.v1.RateLimiter",
        "",
        "tollgate.v1.CheckRequest.rule_id",
        "grpc.health.v1.HealthCheckResponse.SERVING",
    ];
    let found = client.ask(&json!({"reflect": symbols})).expect("responses");
    assert_eq!(found, json!([5, 1, 5, 1, 1]), "5 is NOT_FOUND");
}

#[test]
fn compressed_messages_are_read_and_answered_by_compressed_ones() {
    let server = Server::start(&Setup::default());
    let mut client = Client::of(&server);
    // The library compresses messages only if that makes them smaller.
    let endpoint = format!("/{}", "x".repeat(2_000));
    let message = json!({"identifier": "ann", "endpoint": endpoint});
    let answer = client.ask(&json!({"call": CHECK_RATE_LIMIT, "message": message, "gzip": true}));
    assert_eq!(answer.expect("an answer")["allowed"], true);

    // An empty message in a frame that is not compressed, by a caller that compresses others or does not.
    let frame = server.folder().join("frame");
    fs::write(&frame, [0; 5]).expect("written");
    let data = format!("@{}", frame.display());
    let url = format!("http://{}/{CHECK_RATE_LIMIT}", server.grpc_address);
    let encoding_of = |asked: &[&str]| {
        let mut arguments = vec!["--http2-prior-knowledge", "--include", "--output", "-"];
        for header in ["content-type: application/grpc", "te: trailers"].iter().chain(asked) {
            arguments.extend(["--header", header]);
        }
        arguments.extend(["--data-binary", &data, &url]);
        let said = curl(&arguments).to_lowercase();
        said.lines().find_map(|line| line.strip_prefix("grpc-encoding: ").map(str::to_owned))
    };
    let could = "grpc-accept-encoding: gzip";
    assert_eq!(encoding_of(&[could, "grpc-encoding: gzip"]).as_deref(), Some("gzip"));
    assert_eq!(encoding_of(&[could]), None);
}
