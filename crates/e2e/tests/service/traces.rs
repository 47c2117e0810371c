//! Traces, as a collector receives them.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::Stopwatch;

use tollgate_e2e::certificates::Authority;
use tollgate_e2e::client::request;
use tollgate_e2e::collector::{Collector, digits};
use tollgate_e2e::grpc::{CHECK_BATCH, CHECK_RATE_LIMIT, Client, SHOULD_RATE_LIMIT};
use tollgate_e2e::server::{
    ADMIN_TOKEN, AUTHORIZE, CALLER_TOKEN, CHECK, JSON, Server, Setup, bearer_admin,
};
use tollgate_e2e::until;

const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 1, window: 1h, identifier_type: user_id}
  - {rule_id: per_key, limit: 100, window: 1h, identifier_type: api_key}
";
const BATCH: &str = "/api/v1/rate-limit/check/batch";
/// A secret that must not be in any span.
const SECRET: &str = "xyzzy-0451";
/// Makes spans be sent at once.
const AT_ONCE: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "20");

/// Starts a server that sends its spans to `endpoint`; `settings` go into the group `otlp`.
fn server(endpoint: &str, settings: &str, environment: &[(&str, &str)]) -> Server {
    let settings = format!("otlp: {{{settings}}}");
    let arguments = ["--otlp-endpoint", endpoint];
    let (rules, settings) = (Some(RULES), settings.as_str());
    Server::start(&Setup { rules, settings, arguments: &arguments, environment })
}

/// Ends a server as an operator does. Returns how long that took.
fn end(server: &mut Server) -> Duration {
    let stopwatch = Stopwatch::start();
    server.process.signal("TERM");
    assert_eq!(server.process.end().code(), Some(0), "{}", server.process.errors());
    stopwatch.elapsed()
}

/// The trace context of a caller: the first, second and so on of a test.
fn parent(number: u32, flags: &str) -> String {
    format!("00-{number:032x}-{number:016x}-{flags}")
}

#[test]
fn spans_have_the_decision_and_no_secrets() {
    let collector = Collector::start();
    let settings = format!("otlp: {{endpoint: '{}', sample: 0}}", collector.endpoint());
    let mut server = Server::start(&Setup {
        rules: Some(RULES),
        settings: &settings,
        arguments: &["--check-auth", "token"],
        environment: &[("TOLLGATE_CHECK_TOKEN", CALLER_TOKEN)],
    });
    let bearer = format!("Bearer {CALLER_TOKEN}");
    let mut sent = 0;
    let mut ask = |method: &str, path: &str, token: &str, body: &str| {
        sent += 1;
        let parent = parent(sent, "01");
        let headers =
            [JSON, ("traceparent", &parent), ("Authorization", token), ("X-API-Key", SECRET)];
        let proxy = [("X-Tollgate-Token", CALLER_TOKEN)];
        let more = if path.starts_with(AUTHORIZE) { &proxy[..] } else { &[] };
        server.ask(method, path, &[&headers[..], more].concat(), body)
    };
    let check = r#"{"identifiers":{"user_id":"alice"}}"#;
    let by_key = format!(r#"{{"identifiers":{{"api_key":"{SECRET}"}}}}"#);
    let free = r#"{"identifiers":{"tenant":"unlimited"}}"#;
    let batch = format!(r#"{{"checks":[{check},{by_key},{check}]}}"#);
    let allowed = ask("POST", CHECK, &bearer, check).json();
    let refused = ask("POST", CHECK, &bearer, check).json();
    let by_key = ask("POST", CHECK, &bearer, &by_key).json();
    ask("POST", CHECK, &bearer, free);
    ask("POST", BATCH, &bearer, &batch);
    ask("POST", CHECK, &format!("Bearer {SECRET}"), check);
    ask("POST", CHECK, &bearer, SECRET);
    ask("GET", &format!("{AUTHORIZE}/{SECRET}?token={SECRET}"), "", "");
    ask("GET", &format!("/{SECRET}"), "", "");
    ask(SECRET, "/metrics", "", "");
    ask("GET", "/api/v1/rules/per_user", bearer_admin().1, "");

    let mut client = Client::of(&server);
    let mut call = |what: Value, token: &str| {
        sent += 1;
        let mut line = what;
        let parent = parent(sent, "01");
        line["metadata"] =
            json!({"traceparent": parent, "authorization": format!("Bearer {token}")});
        client.ask(&line)
    };
    let bob = json!({"identifier": "bob"});
    let check = json!({"call": CHECK_RATE_LIMIT, "message": bob});
    let batch = json!({"call": CHECK_BATCH, "message": {"checks": [bob, bob]}});
    let descriptor = json!({"entries": [{"key": "user_id", "value": "carol"}]});
    let envoy = json!({"domain": SECRET, "descriptors": [descriptor]});
    let unknown = format!("tollgate.v1.RateLimiter/{SECRET}");
    let over_grpc = call(check.clone(), CALLER_TOKEN).expect("an answer");
    call(batch, CALLER_TOKEN).expect("an answer");
    let for_envoy = json!({"call": SHOULD_RATE_LIMIT, "message": envoy});
    let for_envoy = call(for_envoy, CALLER_TOKEN).expect("an answer");
    call(check, SECRET).expect_err("a wrong token");
    call(json!({"raw": unknown, "bytes": ""}), CALLER_TOKEN).expect_err("no such call");
    end(&mut server);

    let http = |name: &str, route: Option<&str>, status: u16, more: Value| {
        let method = name.split(' ').next().expect("a method");
        let method = if method == "HTTP" { "_OTHER" } else { method };
        let mut attributes = more;
        attributes["http.request.method"] = method.into();
        attributes["http.response.status_code"] = status.into();
        if let Some(route) = route {
            attributes["http.route"] = route.into();
        }
        (name.to_owned(), false, attributes)
    };
    let to = |method: &str, route: &str, status: u16, more: Value| {
        http(&format!("{method} {route}"), Some(route), status, more)
    };
    let grpc = |name: &str, code: u16, more: Value| {
        let mut attributes = more;
        if let Some((service, method)) = name.split_once('/') {
            attributes["rpc.service"] = service.into();
            attributes["rpc.method"] = method.into();
        }
        attributes["rpc.system"] = "grpc".into();
        attributes["rpc.grpc.status_code"] = code.into();
        (name.to_owned(), false, attributes)
    };
    let decided = |is_allowed: bool, rule_id: &str, decision_id: &Value| {
        json!({"tollgate.allowed": is_allowed, "tollgate.rule_id": rule_id,
               "tollgate.decision_id": decision_id})
    };
    let decision_for_envoy = &for_envoy["dynamic_metadata"]["decision_id"];
    let mut failure = grpc("grpc", 12, json!({"error.type": "UNIMPLEMENTED"}));
    failure.1 = true;
    let expected = [
        to("POST", CHECK, 200, decided(true, "per_user", &allowed["decision_id"])),
        to("POST", CHECK, 200, decided(false, "per_user", &refused["decision_id"])),
        to("POST", CHECK, 200, decided(true, "per_key", &by_key["decision_id"])),
        to("POST", CHECK, 200, json!({"tollgate.allowed": true})),
        to("POST", BATCH, 200, json!({"tollgate.checks": 3, "tollgate.refused": 2})),
        to("POST", CHECK, 401, json!({})),
        to("POST", CHECK, 400, json!({})),
        to("GET", "/api/v1/rate-limit/authorize/{*path}", 200, json!({"tollgate.allowed": true})),
        http("GET", None, 404, json!({})),
        http("HTTP /metrics", Some("/metrics"), 405, json!({})),
        to("GET", "/api/v1/rules/{rule_id}", 200, json!({})),
        grpc(CHECK_RATE_LIMIT, 0, decided(true, "per_user", &over_grpc["decision_id"])),
        grpc(CHECK_BATCH, 0, json!({"tollgate.checks": 2, "tollgate.refused": 2})),
        grpc(SHOULD_RATE_LIMIT, 0, decided(true, "per_user", decision_for_envoy)),
        grpc(CHECK_RATE_LIMIT, 16, json!({})),
        failure,
    ];
    let spans = collector.spans();
    assert_eq!(spans.len(), expected.len(), "{spans:#?}");
    for (number, (span, (name, is_error, attributes))) in (1..).zip(spans.iter().zip(expected)) {
        let expected = json!({
            "service": "tollgate",
            "name": name,
            "kind": "SPAN_KIND_SERVER",
            "trace": format!("{number:032x}"),
            "parent": format!("{number:016x}"),
            "state": "",
            "is_error": is_error,
            "is_in_order": true,
            "attributes": attributes,
        });
        assert_eq!(*span, expected, "the span of request {number}");
    }
    assert!(collector.has_received(&digits("per_user")), "these are the bytes");
    for secret in [SECRET, CALLER_TOKEN, ADMIN_TOKEN, "Bearer"] {
        assert!(!collector.has_received(&digits(secret)), "{secret} has got out");
    }
}

/// The trace context of a caller, and the parent and the state of the resulting span, if there is one.
type Case<'a> = (&'a [(&'a str, &'a str)], Option<(&'a str, &'a str)>);

#[test]
fn callers_decide_whether_they_are_traced() {
    let long = format!("vendor={}", "x".repeat(600));
    let cases = |sample: u32, cases: &[Case<'_>]| {
        let collector = Collector::start();
        let settings = format!("sample: {sample}, service_name: limiter");
        let mut server = server(&collector.endpoint(), &settings, &[]);
        let mut counts = 0;
        for (headers, expected) in cases {
            let answer = server.ask("GET", "/health/live", headers, "");
            assert_eq!(answer.status, 200);
            counts += usize::from(expected.is_some());
        }
        end(&mut server);
        let spans = collector.lines();
        let mut spans = spans.iter().filter(|line| line["trace"].is_string());
        assert_eq!(spans.clone().count(), counts, "sample: {sample}: {spans:#?}");
        for (headers, expected) in cases {
            let Some((parent, state)) = expected else { continue };
            let span = spans.next().expect("a span");
            let own = (span["parent"].as_str(), span["state"].as_str());
            assert_eq!(own, (Some(*parent), Some(*state)), "{headers:?}");
            let is_new = span["trace"] != format!("{:032x}", 7);
            assert_eq!(is_new, parent.is_empty(), "{headers:?}: {span}");
            assert_eq!(span["service"], "limiter");
        }
    };
    let (yes, no) = (parent(7, "01"), parent(7, "00"));
    let (yes, no) = (("traceparent", yes.as_str()), ("traceparent", no.as_str()));
    let own = "0000000000000007";
    cases(
        0,
        &[
            (&[], None),
            (&[no], None),
            (&[yes], Some((own, ""))),
            (&[yes, ("tracestate", "a=1,b=2")], Some((own, "a=1,b=2"))),
            (&[yes, ("tracestate", "a=1"), ("tracestate", "b=2")], Some((own, "a=1,b=2"))),
            (&[yes, ("tracestate", &long)], Some((own, ""))),
            (&[yes, ("tracestate", "nonsense")], Some((own, ""))),
            (&[yes, yes], None),
            (&[("traceparent", "00-abc")], None),
        ],
    );
    cases(
        1,
        &[
            (&[], Some(("", ""))),
            (&[no], None),
            (&[yes], Some((own, ""))),
            (&[yes, yes], Some(("", ""))),
            (&[("traceparent", &"0".repeat(55))], Some(("", ""))),
        ],
    );
}

#[test]
fn spans_are_encrypted_on_the_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("our own");
    let (certificate, key) = authority.sign(folder.path(), "localhost");
    let collector = Collector::start_with(&["0", &certificate, &key]);
    let trusted = authority.write(folder.path(), "authority.pem");
    let endpoint = format!("https://localhost:{}", collector.address.port());
    let mut trusting = server(&endpoint, "", &[("SSL_CERT_FILE", &trusted)]);
    trusting.get("/health/live");
    end(&mut trusting);
    assert_eq!(collector.spans().len(), 1, "{}", trusting.process.errors());

    let stranger = Authority::new("another").write(folder.path(), "another.pem");
    let mut wary = server(&endpoint, "", &[("SSL_CERT_FILE", &stranger)]);
    wary.get("/health/live");
    end(&mut wary);
    let errors = wary.process.errors();
    assert!(errors.contains("traces cannot be sent"), "{errors}");
    assert_eq!(collector.spans().len(), 1, "{errors}");
}

#[test]
fn an_unavailable_collector_is_logged_once_and_found_again() {
    let mut collector = Collector::start();
    let mut server = server(&collector.endpoint(), "", &[AT_ONCE]);
    let (lost, found) = ("traces cannot be sent to", "traces are sent to");
    let count = |server: &Server, words: &str| server.process.errors().matches(words).count();
    let port = collector.address.port().to_string();
    for times in 1..=2 {
        collector.process.signal("KILL");
        collector.process.end();
        until("word of the loss", || {
            server.get("/health/live");
            (count(&server, lost) == times).then_some(())
        });
        // A second line would follow the next spans, which have to fail before others arrive.
        for _ in 0..50 {
            server.get("/health/live");
        }
        collector = Collector::start_with(&[&port]);
        until("word of the return", || {
            server.get("/health/live");
            (count(&server, found) == times).then_some(())
        });
        assert_eq!(count(&server, lost), times, "{}", server.process.errors());
    }
    end(&mut server);
    assert!(!collector.spans().is_empty());
}

/// One port without a listener, and one whose listener never responds.
#[test]
fn requests_and_shutdown_do_not_wait_for_the_collector() {
    const REQUESTS: usize = 5_000;
    /// How long the server waits for a collector.
    const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(10);
    let frozen = TcpListener::bind("127.0.0.1:0").expect("a port");
    let away = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addresses = [&frozen, &away].map(|port| port.local_addr().expect("an address"));
    drop(away);
    for address in addresses {
        let mut server = server(&format!("http://{address}"), "", &[AT_ONCE]);
        let check = request("POST", CHECK, &[JSON], br#"{"identifiers":{"user_id":"alice"}}"#);
        let mut connection = server.connect();
        // More than the queue holds. A request that waited for the collector would take its timeout.
        for _ in 0..REQUESTS {
            let stopwatch = Stopwatch::start();
            assert_eq!(connection.ask(&check).status, 200);
            let taken = stopwatch.elapsed();
            assert!(taken < COLLECTOR_TIMEOUT, "a request took {taken:?}");
        }
        drop(connection);
        let taken = end(&mut server);
        assert!(taken < COLLECTOR_TIMEOUT, "the end took {taken:?}");
    }
    drop(frozen);
}
