//! Figures out of responses, and figures for the tests of the view.

use serde_json::json;

use super::*;

fn row(count: u64, name: &str, tenant: &str, rule: &str, used: Option<u64>) -> ShownRow {
    ShownRow { count, name: name.into(), tenant: tenant.into(), rule: rule.into(), used }
}

/// Figures of a busy server.
pub(in crate::top) fn sample() -> LiveFigures {
    let list = |rows: Vec<ShownRow>| ShownList { rows, may_lack: 0 };
    LiveFigures {
        at: Timestamp::from_secs(1_431_857_103),
        uptime_seconds: 7_384.5,
        revision: 7,
        bans: Some(2),
        fleet: Some(FleetState { nodes: 3, store: "up".to_owned(), draining: 0 }),
        silent: 0,
        unreachable_since: None,
        requests: RateSeries { now: 1_234.0, points: (0..120).collect() },
        refused: RateSeries { now: 12.34, points: vec![0, 1, 2, 3] },
        latency: Some(CheckLatency { p50: 0.000_12, p95: 0.001, p99: 0.003_4 }),
        by: "client".to_owned(),
        window_seconds: 60,
        lists: [
            list(vec![
                row(1_200, "mallory", "", "search", None),
                row(30, "eve", "acme", "acme.own", None),
                row(3, "bob", "", "search", None),
            ]),
            list(vec![row(5, "ann", "", "search", Some(100))]),
            ShownList {
                rows: vec![
                    row(4_000, "mallory", "", "", None),
                    row(99, "ann", "", "", None),
                    row(90, "eve", "acme", "", None),
                    row(7, "bob", "", "", None),
                ],
                may_lack: 17,
            },
            list(Vec::new()),
        ],
    }
}

fn node(requests: f64, state: &str, age: f64) -> Value {
    json!({"requests_per_second": requests, "refused_per_second": 1.0, "draining": age > 1.0,
           "store": {"state": state, "servers": 1, "servers_up": 1}, "age_seconds": age})
}

fn polled(nodes: Option<Value>, history: Value) -> PolledResponses {
    let list = |top: Value| json!({"exact": true, "may_lack": 0, "top": top});
    let hostile = "a\u{1b}[2J\u{202e}\u{200b}b";
    PolledResponses {
        stats: json!({"uptime_seconds": 5.0, "revision": 3, "silent_nodes": ["x"],
                      "bans": {"in_force": 4, "made": 9, "not_made": 0}}),
        top: json!({"by": "client", "window_seconds": 60, "scope": "fleet",
                    "refused": list(json!([{"name": hostile, "tenant": hostile, "rule_id": hostile, "count": 2}])),
                    "near_limit": list(json!([{"name": "ann", "used_percent": 85, "count": 1}])),
                    "busiest": list(json!([])), "would_refuse": list(json!([]))}),
        nodes: nodes.map(|nodes| json!({ "nodes": nodes })),
        history,
    }
}

fn history() -> Value {
    let none = json!([null, null, null]);
    json!({"node": {"step_seconds": 1, "allowed": [1, 2, 3], "refused": [0, 1, 1], "denied": [0, 0, 2],
                    "throttled": [0, 0, 0], "unlimited": [5, 5, 5], "error": [0, 0, 0],
                    "check_seconds": {"p50": [0.1, 0.2, null], "p95": [0.1, 0.3, null], "p99": [0.1, 0.4, null]},
                    "store_seconds": {"p50": none, "p95": none, "p99": none}},
           "rules": []})
}

fn reader() -> FigureReader {
    let server = crate::arguments::ServerArguments {
        server: "http://127.0.0.1:1".to_owned(),
        token: None,
        token_file: None,
        ca: None,
        timeout: std::time::Duration::from_secs(1),
        json: false,
    };
    FigureReader::new(Remote::new(&server).expect("a server"), 10)
}

#[test]
fn one_node_has_its_history() {
    let figures = reader().figures(&polled(Some(json!([node(8.0, "memory", 0.2)])), history()));
    let figures = figures.expect("figures");
    assert_eq!(figures.requests, RateSeries { now: 8.0, points: vec![6, 8, 11] });
    assert_eq!(figures.refused, RateSeries { now: 1.0, points: vec![0, 1, 3] });
    assert_eq!(figures.latency, Some(CheckLatency { p50: 0.2, p95: 0.3, p99: 0.4 }));
    assert_eq!((figures.bans, figures.silent), (Some(4), 1));
    let fleet = FleetState { nodes: 1, store: "memory".to_owned(), draining: 0 };
    assert_eq!(figures.fleet, Some(fleet));
    // Nothing that a client chose does something to the terminal.
    let shown = "a\u{fffd}[2J\u{fffd}\u{fffd}b";
    assert_eq!(figures.lists[0].rows, [row(2, shown, shown, shown, None)]);
    assert_eq!(figures.lists[1].rows, [row(1, "ann", "", "", Some(85))]);
}

#[test]
fn rates_of_a_fleet_are_those_of_the_nodes_that_are_alive() {
    let mut reader = reader();
    let mut rates = |nodes: Value| {
        let figures = reader.figures(&polled(Some(nodes), history())).expect("figures");
        (figures.requests, figures.fleet.expect("a fleet"))
    };
    let (requests, fleet) = rates(json!([node(8.0, "up", 0.0), node(4.5, "down", 2.0)]));
    assert_eq!(requests, RateSeries { now: 12.5, points: vec![13] });
    assert_eq!(fleet, FleetState { nodes: 2, store: "down".to_owned(), draining: 1 });
    let nodes = json!([node(8.0, "up", 0.0), node(1.0, "up", 0.5), node(9.0, "down", 60.0)]);
    let (requests, fleet) = rates(nodes.clone());
    assert_eq!(requests, RateSeries { now: 9.0, points: vec![13, 9] });
    assert_eq!(fleet, FleetState { nodes: 2, store: "up".to_owned(), draining: 0 });
    // One that is silent has no figures.
    let silent = json!({"requests_per_second": null, "refused_per_second": null, "store": null,
                        "draining": false, "status": "silent", "age_seconds": 3.0});
    let (requests, fleet) = rates(json!([node(8.0, "up", 0.0), silent]));
    assert_eq!((requests.now, fleet.nodes), (8.0, 1));
    for _ in 0..300 {
        assert!(rates(nodes.clone()).0.points.len() <= MAX_POINTS);
    }
}

#[test]
fn a_tenant_admin_sees_decisions_of_its_rules() {
    let rule = |allowed: &[u64], refused: &[u64]| {
        json!({"rule_id": "r", "from": "t", "step_seconds": 10, "allowed": allowed, "refused": refused,
               "would_refuse": vec![0; refused.len()]})
    };
    let history = json!({"node": null, "rules": [rule(&[10, 20], &[0, 5]), rule(&[30], &[15])]});
    let mut polled = polled(None, history);
    polled.stats["bans"] = Value::Null;
    let figures = reader().figures(&polled).expect("figures");
    assert_eq!(figures.requests, RateSeries { now: 7.0, points: vec![1, 7] });
    assert_eq!(figures.refused, RateSeries { now: 2.0, points: vec![0, 2] });
    assert_eq!((figures.fleet, figures.latency, figures.bans), (None, None, None));
}

#[test]
fn a_response_that_is_no_figure_is_an_error() {
    let mut polled = polled(None, history());
    polled.stats = json!({"uptime_seconds": "yes"});
    let Err(failure) = reader().figures(&polled) else { panic!("figures of nothing") };
    assert!(failure.into_message().starts_with("the server's figures cannot be read"));
}
