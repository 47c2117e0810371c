//! Health checks and reflection, for load balancers and clients without definitions.

use serde_json::json;

use tollgate_e2e::grpc::{CHECK_RATE_LIMIT, Client, HEALTH};
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;

const SERVICES: [&str; 3] =
    ["", "tollgate.v1.RateLimiter", "envoy.service.ratelimit.v3.RateLimitService"];

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
    for service in SERVICES[1..].iter().chain(&["grpc.health.v1.Health"]) {
        let found = found.as_array().expect("a list");
        assert!(found.iter().any(|found| found == service), "no {service} in {found:?}");
        let listed = listed.as_str().expect("bytes");
        assert!(listed.contains(&hex(service)), "no {service} in {listed}");
    }
}
