//! Decisions of the gateway are observed like those of the check API: explained, logged, ranked,
//! counted and traced.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::gateway::{Gateway, NO_RULES};
use crate::upstream::Upstream;
use tollgate_e2e::client::{Answer, request};
use tollgate_e2e::collector::{Collector, digits};
use tollgate_e2e::server::{JSON, Server, Setup, bearer_admin};
use tollgate_e2e::until;

/// Header fields of a request.
type Fields<'a> = &'a [(&'a str, &'a str)];

/// A gateway whose rules are in a catalog.
fn with_catalog(settings: &str, policy: &Value, upstream: &Upstream) -> Gateway {
    let often = "limits: {admin_reads_per_minute: 1000000}";
    let settings = format!("{often}\n{settings}");
    let gateway = start(&Setup { settings: &settings, ..Setup::default() }, upstream);
    let path = "/api/v1/policy?prune=rules";
    let put = gateway.server.ask("PUT", path, &[JSON, bearer_admin()], &policy.to_string());
    assert_eq!(put.status, 200, "{put:?}");
    gateway
}

fn start(setup: &Setup<'_>, upstream: &Upstream) -> Gateway {
    let url = format!("http://{}", upstream.address);
    let gateway = ["--gateway", "127.0.0.1:0", "--upstream", &url];
    let arguments = [setup.arguments, &gateway].concat();
    Gateway::of(Server::start(&Setup { arguments: &arguments, ..*setup }))
}

fn read(gateway: &Gateway, path: &str) -> Value {
    let answer = gateway.server.get_as_admin(path);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

/// The decisions in the log that a query finds, the newest first, once there are so many.
fn logged(gateway: &Gateway, query: &str, count: usize) -> Vec<Value> {
    until("decisions in the log", || {
        let mut log = read(gateway, &format!("/api/v1/audit/decisions?{query}"));
        let Value::Array(records) = log["records"].take() else { panic!("no records: {log}") };
        (records.len() >= count).then_some(records)
    })
}

/// The id of a refusal, which is the same in its header field and its body.
fn name_of(refused: &Answer) -> String {
    let name = refused.header("x-tollgate-decision").expect("a name").to_owned();
    assert_eq!(refused.json()["error"]["decision_id"], name.as_str());
    name
}

/// Reads events until one contains these words.
fn hear(events: &mut TcpStream, words: &str) {
    let mut heard = String::new();
    while !heard.contains(words) {
        let mut piece = [0; 4096];
        let length = events.read(&mut piece).expect("an event");
        assert!(length > 0, "no {words} before the end: {heard}");
        heard.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
}

#[test]
fn a_refusal_is_explained_logged_ranked_and_sent_as_an_event() {
    let upstream = Upstream::start();
    let per_address =
        json!({"rule_id": "per_address", "limit": 1, "window": "300d", "identifier_type": "ip"});
    let gateway = with_catalog("", &json!({"rules": [per_address]}), &upstream);
    let mut events = TcpStream::connect(gateway.server.address).expect("a connection");
    events.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let accept = ("Accept", "text/event-stream");
    let listen = request("GET", "/api/v1/events", &[accept, bearer_admin()], b"");
    events.write_all(&listen).expect("sent");
    hear(&mut events, ": listening");

    assert_eq!(gateway.get("/orders").status, 200);
    let refused = gateway.ask("PUT", "/orders?token=xyzzy", &[], b"");
    assert_eq!(refused.status, 429);
    let name = name_of(&refused);

    let explained = read(&gateway, &format!("/api/v1/decisions/{name}"));
    assert_eq!(explained["because"], "rule per_address was exceeded and binds");
    let answer = &explained["answer"];
    assert_eq!((&answer["allowed"], &answer["rule_id"]), (&json!(false), &json!("per_address")));

    let log = logged(&gateway, "client=127.0.0.1&rule_id=per_address&action=refused", 1);
    let expected = json!({"decision_id": name, "action": "refused", "reason": "rate_limited", "method": "PUT",
        "endpoint": "/orders", "client": "127.0.0.1", "rule_id": "per_address", "limit": 1, "remaining": 0,
        "cost": 1, "identifiers": {"ip": "127.0.0.1"}});
    for (field, value) in expected.as_object().expect("fields") {
        assert_eq!(log[0][field], *value, "{field}: {log:?}");
    }
    hear(&mut events, &format!("event: decision\ndata: {{\"decision_id\":\"{name}\""));
    for (by, ranked) in [("client", "127.0.0.1"), ("rule", "per_address"), ("endpoint", "/orders")]
    {
        let top = read(&gateway, &format!("/api/v1/top?by={by}"));
        let first = &top["refused"]["top"][0];
        assert_eq!((&first["name"], &first["count"]), (&json!(ranked), &json!(1)), "{by}: {top}");
    }
    let stats = read(&gateway, "/api/v1/stats");
    let counted = |what: &str| stats["totals"][what].as_u64();
    assert_eq!((counted("allowed"), counted("refused")), (Some(1), Some(1)), "{stats}");
    assert_eq!(gateway.count("tollgate_check_duration_seconds_count"), 2);
}

#[test]
fn every_outcome_of_a_request_is_in_the_log() {
    let upstream = Upstream::start();
    let at = |rule: Value, path: &str| {
        let mut rule = rule;
        rule["applies_to"] = json!({"endpoints": [path]});
        rule
    };
    let limited =
        json!({"rule_id": "limited", "limit": 1, "window": "300d", "identifier_type": "api_key"});
    let slow = json!({"rule_id": "slow", "algorithm": "gcra", "limit": 1, "window": "3s", "identifier_type": "global",
        "action": "throttle", "throttle": {"max_delay_ms": 60_000}});
    let known = json!({"rule_id": "known", "limit": 9, "window": "1h", "identifier_type": "user_id", "on_missing": "deny"});
    let policy = json!({"rules": [at(limited, "/limited"), at(slow, "/slow"), at(known, "/known")],
        "blacklist": [{"identifier_type": "ip", "identifier": "192.0.2.9"}]});
    let settings =
        "identity: {api_keys: any, trusted_proxies: [127.0.0.1]}\naudit: {sample_allowed: 1}";
    let gateway = with_catalog(settings, &policy, &upstream);
    let (key, denied) = (("X-API-Key", "k"), ("X-Forwarded-For", "192.0.2.9"));
    let call = ("Content-Type", "application/grpc");
    let cases: [(&str, &str, Fields<'_>, u16, &str); 9] = [
        ("GET", "/limited?a", &[key], 200, "sha256:8254c329a928 limited allowed GET /limited"),
        ("POST", "/limited", &[key], 429, "sha256:8254c329a928 limited refused POST /limited"),
        (
            "POST",
            "/limited",
            &[key, call],
            200,
            "sha256:8254c329a928 limited refused POST /limited",
        ),
        ("GET", "/slow", &[], 200, "127.0.0.1 slow allowed GET /slow"),
        ("GET", "/slow", &[], 200, "127.0.0.1 slow throttled GET /slow"),
        ("GET", "/known", &[], 403, "127.0.0.1 known denied GET /known"),
        ("GET", "/", &[denied], 403, "192.0.2.9 - denied GET /"),
        // Nothing was counted.
        ("GET", "/free", &[], 200, ""),
        ("GET", "/limited", &[key, ("X-API-Key", "other")], 400, ""),
    ];
    for (method, path, fields, status, _) in cases {
        assert_eq!(gateway.ask(method, path, fields, b"").status, status, "{method} {path}");
    }
    let expected = cases.map(|(.., line)| line);
    let expected: Vec<&str> = expected.into_iter().filter(|line| !line.is_empty()).collect();
    let mut log = logged(&gateway, "", expected.len());
    log.reverse();
    let fields = ["client", "rule_id", "action", "method", "endpoint"];
    let brief = |record: &Value| {
        fields.map(|field| record[field].as_str().unwrap_or("-").to_owned()).join(" ")
    };
    assert_eq!(log.iter().map(brief).collect::<Vec<_>>(), expected);
    for record in log {
        let name = record["decision_id"].as_str().expect("a name");
        let explained = read(&gateway, &format!("/api/v1/decisions/{name}"));
        let is_refused = ["refused", "denied"].map(Value::from).contains(&record["action"]);
        assert_eq!(explained["answer"]["allowed"], !is_refused, "{record}");
    }
}

#[test]
fn rejected_tokens_are_counted() {
    let upstream = Upstream::start();
    let secret = [("TOLLGATE_JWT_SECRET", "squeamish-ossifrage-squeamish-ossifrage")];
    let gateway = start(
        &Setup { rules: Some(NO_RULES), environment: &secret, ..Setup::default() },
        &upstream,
    );
    let bearer = ("Authorization", "Bearer nonsense");
    assert_eq!(gateway.ask("GET", "/", &[bearer], b"").status, 200);
    assert_eq!(gateway.count("tollgate_tokens_total{outcome=\"malformed\"}"), 1);
}

/// A traced gateway, where one client has one request; `sample` is the share of requests without a
/// sampling decision of the client.
fn traced(collector: &Collector, sample: &str, upstream: &Upstream) -> Gateway {
    let rules = "rules: [{rule_id: one, limit: 1, window: 1h, identifier_type: header:x-client}]";
    let settings = format!("otlp: {{sample: {sample}}}");
    let arguments = ["--otlp-endpoint", &collector.endpoint()];
    let setup = Setup {
        rules: Some(rules),
        settings: &settings,
        arguments: &arguments,
        ..Setup::default()
    };
    start(&setup, upstream)
}

/// Ends a gateway as an operator does, so that all of its spans arrive.
fn end(gateway: &mut Gateway) {
    let process = &mut gateway.server.process;
    process.signal("TERM");
    assert_eq!(process.end().code(), Some(0), "{}", process.errors());
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{CALLER}-{flags}")
}

#[test]
fn spans_have_the_decision_within_the_trace_of_the_client() {
    let (collector, upstream) = (Collector::start(), Upstream::start());
    let mut gateway = traced(&collector, "0", &upstream);
    let parent = parent("01");
    let fields =
        [("traceparent", parent.as_str()), ("tracestate", "vendor=1"), ("X-Client", "xyzzy")];
    assert_eq!(gateway.ask("GET", "/status/200?q=xyzzy", &fields, b"").status, 200);
    let refused = gateway.ask("POST", "/xyzzy", &fields, b"");
    assert_eq!(refused.status, 429);
    assert_eq!(gateway.ask("GET", "/status/503", &fields[..2], b"").status, 503);
    end(&mut gateway);
    let decided =
        |is_allowed: bool| json!({"tollgate.allowed": is_allowed, "tollgate.rule_id": "one"});
    let mut named = decided(false);
    named["tollgate.decision_id"] = name_of(&refused).into();
    let spans = collector.spans();
    let expected = [
        ("GET", 200, decided(true)),
        ("POST", 429, named),
        ("GET", 503, json!({"tollgate.allowed": true, "error.type": "503"})),
    ];
    assert_eq!(spans.len(), expected.len(), "{spans:#?}");
    for (span, (method, status, mut attributes)) in spans.iter().zip(expected) {
        attributes["http.request.method"] = method.into();
        attributes["http.response.status_code"] = status.into();
        let expected = json!({
            "service": "tollgate",
            "name": method,
            "kind": "SPAN_KIND_SERVER",
            "trace": TRACE,
            "parent": CALLER,
            "state": "vendor=1",
            "is_error": status == 503,
            "is_in_order": true,
            "attributes": attributes,
        });
        assert_eq!(*span, expected);
    }
    assert!(collector.has_received(&digits("tollgate.rule_id")));
    assert!(!collector.has_received(&digits("xyzzy")), "nothing of a request gets out");
}

/// The trace context that an upstream receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// That of the client.
    Same,
    /// None.
    Nothing,
    /// The trace of the client, and another span of it.
    Joined,
    /// A trace that the client does not know, which is recorded, or not.
    New { is_recorded: bool },
}

#[test]
fn upstreams_find_the_span_of_the_gateway_before_their_own() {
    let upstream = Upstream::start();
    let (yes, no) = (parent("01"), parent("00"));
    let (yes, no) = (("traceparent", yes.as_str()), ("traceparent", no.as_str()));
    let state = ("tracestate", "vendor=1");
    let spans = RefCell::new(Vec::new());
    let told = |gateway: &Gateway, fields: Fields<'_>| {
        assert_eq!(gateway.ask("GET", "/", fields, b"").status, 200);
        let seen = upstream.last();
        let lines = seen.fields.get_all("traceparent").iter();
        let lines: Vec<&str> = lines.filter_map(|line| line.to_str().ok()).collect();
        let sent = fields.iter().filter(|(name, _)| *name == "traceparent");
        let sent: Vec<&str> = sent.map(|(_, line)| *line).collect();
        let what = match lines[..] {
            [] => Told::Nothing,
            _ if lines == sent => Told::Same,
            [line] => {
                let words: Vec<&str> = line.split('-').collect();
                assert_eq!((words.len(), words[0]), (4, "00"), "{line}");
                let is_recorded = words[3] == "01";
                if is_recorded {
                    spans.borrow_mut().push(words[2].to_owned());
                }
                if words[1] == TRACE { Told::Joined } else { Told::New { is_recorded } }
            }
            _ => panic!("two lines: {seen:?}"),
        };
        (what, seen.field("tracestate").map(str::to_owned))
    };
    let check = |gateway: &Gateway, cases: &[(Fields<'_>, Told, Option<&str>)]| {
        for (fields, expected, state) in cases {
            assert_eq!(told(gateway, fields), (*expected, state.map(str::to_owned)), "{fields:?}");
        }
    };

    let off = Gateway::before(upstream.address);
    check(
        &off,
        &[
            (&[], Told::Nothing, None),
            (&[yes, state], Told::Same, Some("vendor=1")),
            (&[yes, yes], Told::Same, None),
            (&[("traceparent", "nonsense")], Told::Same, None),
        ],
    );
    let collector = Collector::start();
    let unsound = ("traceparent", "nonsense");
    let mut rarely = traced(&collector, "0", &upstream);
    let new = |is_recorded| Told::New { is_recorded };
    check(
        &rarely,
        &[
            (&[], new(false), None),
            (&[unsound, state], new(false), None),
            (&[no, state], Told::Same, Some("vendor=1")),
            (&[yes, state], Told::Joined, Some("vendor=1")),
            (&[yes], Told::Joined, None),
        ],
    );
    end(&mut rarely);
    assert_eq!(collector.spans().len(), 2);
    let mut always = traced(&collector, "1", &upstream);
    check(
        &always,
        &[
            (&[], new(true), None),
            (&[yes, yes], new(true), None),
            (&[no], Told::Same, None),
            (&[yes, state], Told::Joined, Some("vendor=1")),
        ],
    );
    end(&mut always);
    assert_eq!((collector.spans().len(), spans.borrow().len()), (5, 5));
    for span in spans.into_inner() {
        assert!(
            collector.has_received(&span),
            "the span that the upstream got was not sent: {span}"
        );
    }
}
