//! The first page on a busy day, and on the first day.

use super::{NOW, Words, before};
use crate::model::{
    Breaker, CandidateFigures, ErrorCount, Figure, FiguresOf, FirstCheck, LatencySeries, Memory,
    NodeRow, NodeState, NodeStore, Overview, PointNote, Quota, RequestSeries, RevisionMark,
    RuleRow, RuleState, Section, StoreServer, TopClient,
};

const POINTS: usize = 120;

/// A number from 0 to 1 that looks random, the same every time.
pub(crate) fn noise(at: usize, salt: u64) -> f64 {
    let mut state =
        (at as u64).wrapping_add(salt.wrapping_mul(7_919)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state ^= state >> 29;
    state = state.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state ^= state >> 32;
    (state % 10_000) as f64 / 10_000.0
}

/// A hill around a point.
fn hill(at: usize, center: f64, width: f64) -> f64 {
    let distance = (at as f64 - center) / width;
    (-distance * distance).exp()
}

/// A course of some points that wavers around a level.
pub(crate) fn course(level: f64, salt: u64) -> Vec<f64> {
    (0..32).map(|at| level * (0.8 + 0.4 * noise(at, salt))).collect()
}

pub(crate) fn requests(w: Words, scale: f64) -> RequestSeries {
    // The first points are from before the server started.
    let values = |value: &dyn Fn(usize) -> f64| {
        (0..POINTS).map(|at| (at > 2).then(|| w.f(scale * value(at)))).collect::<Vec<_>>()
    };
    RequestSeries {
        start: before(14_400),
        step_seconds: 120,
        allowed: values(&|at| 1_150.0 + 1_350.0 * hill(at, 52.0, 26.0) + 90.0 * noise(at, 1)),
        throttled: values(&|at| 20.0 + 70.0 * hill(at, 78.0, 5.0) + 12.0 * noise(at, 2)),
        refused: values(&|at| 40.0 + 560.0 * hill(at, 78.0, 5.0) + 20.0 * noise(at, 3)),
        notes: (74..83)
            .map(|index| PointNote { index, text: w.t("login: 91 % of refusals, of one client") })
            .collect(),
        marks: vec![
            RevisionMark { at: before(8_400), revision: w.n(41), what: w.t("login 10 → 5") },
            RevisionMark {
                at: before(3_000),
                revision: w.n(42),
                what: w.t("exports: tenant instead of user_id"),
            },
        ],
    }
}

pub(crate) fn latency(w: Words, scale: f64) -> LatencySeries {
    let values = |value: &dyn Fn(usize) -> f64| {
        (0..POINTS).map(|at| Some(w.f(scale * value(at)))).collect::<Vec<_>>()
    };
    LatencySeries {
        start: before(14_400),
        step_seconds: 120,
        p50: values(&|at| 0.16 + 0.03 * noise(at, 4)),
        p95: values(&|at| 0.4 + 0.08 * noise(at, 5)),
        p99: values(&|at| 0.7 + 0.25 * noise(at, 6) + 1.1 * hill(at, 100.0, 4.0)),
    }
}

pub(crate) fn quota(
    w: Words,
    limit: u64,
    window_ms: u64,
    burst: Option<u64>,
    by: &[&str],
) -> Quota {
    Quota {
        limit: w.n(limit),
        window_ms: w.n(window_ms),
        calendar: None,
        burst: burst.map(|burst| w.n(burst)),
        algorithm: w.t("sliding_window_counter"),
        identifiers: w.list(by),
    }
}

pub(crate) fn candidate(w: Words) -> CandidateFigures {
    CandidateFigures {
        quota: quota(w, 4, 60_000, None, &["ip"]),
        requests: w.n(12_400),
        would_refuse: w.n(37),
        clients_refused: w.n(3),
        clients: Vec::new(),
    }
}

pub(crate) fn rule_rows(w: Words) -> Vec<RuleRow> {
    let row = |rule_id: &str, quota, applies_to: &str, per_second, share: f64, salt| RuleRow {
        rule_id: w.t(rule_id),
        quota,
        applies_to: w.t(applies_to),
        requests: Figure { value: w.f(per_second), course: course(per_second, salt) },
        refused_share: Figure { value: w.f(share), course: course(share, salt + 1) },
        refused: w.n((per_second * share * 14_400.0) as u64),
        ..RuleRow::default()
    };
    let minute = 60_000;
    vec![
        RuleRow {
            name: w.some("Logins per address"),
            candidate: Some(candidate(w)),
            refused_share: Figure {
                value: w.f(0.734),
                course: (0..32).map(|at| 0.02 + 0.7 * hill(at, 20.0, 4.0)).collect(),
            },
            ..row("login", quota(w, 5, minute, None, &["ip"]), "POST /login", 31.0, 0.734, 10)
        },
        row("api_burst", quota(w, 10, 1_000, Some(50), &["ip"]), "/api/*", 1_904.0, 0.049, 12),
        row("per_user", quota(w, 1_000, 3_600_000, None, &["user_id"]), "", 1_730.0, 0.006, 14),
        RuleRow {
            tenant: w.some("acme"),
            ..row(
                "exports",
                quota(w, 20, 86_400_000, None, &["tenant"]),
                "POST /export",
                0.02,
                0.0,
                16,
            )
        },
        RuleRow {
            state: RuleState::Shadow,
            ..row(
                "search_shadow",
                quota(w, 30, minute, None, &["user_id"]),
                "GET /search",
                212.0,
                0.021,
                18,
            )
        },
        RuleRow {
            state: RuleState::Disabled,
            ..row("legacy_v1", quota(w, 100, minute, None, &["api_key"]), "/v1/*", 0.0, 0.0, 20)
        },
    ]
}

pub(crate) fn top(w: Words) -> Vec<TopClient> {
    let row = |kind: &str, value: &str, rule: &str, count| TopClient {
        client: w.client(kind, value),
        rule_id: w.some(rule),
        count: w.n(count),
        used: None,
    };
    let mut rows = vec![
        row("ip", "203.0.113.66", "login", 412),
        row("api_key", "key_9f2c…e1", "api_burst", 188),
        row("user_id", "u_8121", "per_user", 97),
        row("ip", "2001:db8:85a3::8a2e:370:7334", "api_burst", 61),
        row("user_id", "u_33", "per_user", 22),
    ];
    rows[2].client.name = w.t("acme / u_8121");
    rows[2].client.identifiers.insert(0, w.part("tenant", "acme"));
    rows
}

pub(crate) fn stores(w: Words) -> Vec<StoreServer> {
    let server = |name: &str, p99: f64| StoreServer {
        server: w.t(name),
        calls: w.n(18_402_113),
        p50_ms: Some(w.f(0.17)),
        p95_ms: Some(w.f(0.42)),
        p99_ms: Some(w.f(p99)),
        drift_seconds: Some(w.f(0.003)),
        ..StoreServer::default()
    };
    vec![
        server("redis-1:6379", 0.81),
        StoreServer {
            breaker: Breaker::Open,
            since: Some(before(1_132)),
            failure: Some("timeout".to_owned()),
            openings: w.n(4),
            failures: w.n(2_113),
            errors: vec![
                ErrorCount { kind: w.t("timeout"), count: w.n(2_101) },
                ErrorCount { kind: w.t("connection"), count: w.n(12) },
            ],
            drift_seconds: Some(w.f(-1.84)),
            ..server("redis-2:6379", 51.3)
        },
    ]
}

pub(crate) fn memory(w: Words) -> Memory {
    Memory {
        counters: w.n(48_211),
        bytes: w.n(13_002_342),
        max_bytes: w.n(268_435_456),
        evictions: 0,
    }
}

pub(crate) fn nodes(w: Words) -> Section<Vec<NodeRow>> {
    let node = |name: &str, version: &str, per_second: f64, revision: u64, age: u64| NodeRow {
        name: w.t(name),
        version: w.t(version),
        started_at: Some(before(432_000)),
        seen_at: before(1),
        revision,
        revision_at: Some(before(age)),
        envoy_files: w.some("7d865e959b2466918c9863afca942d0f"),
        state: Some(NodeState {
            requests_per_second: w.f(per_second),
            refused_share: w.f(0.031),
            store: NodeStore::Reachable,
            unready: None,
        }),
        ..NodeRow::default()
    };
    let partly = NodeState {
        requests_per_second: w.f(742.0),
        refused_share: w.f(0.031),
        store: NodeStore::Partly { up: 1, servers: 2 },
        unready: Some("shuts down"),
    };
    Section::Ready(vec![
        NodeRow { is_this: true, ..node("tg-a", "0.2.0", 731.0, 42, 3_000) },
        NodeRow {
            state: Some(partly),
            envoy_files: None,
            ..node("tg-b", "0.2.0", 742.0, 42, 3_000)
        },
        NodeRow { seen_at: before(240), state: None, ..node("tg-c", "0.1.9", 711.0, 41, 8_400) },
    ])
}

/// A busy day.
pub(crate) fn overview(w: Words) -> Overview {
    let share = |at: usize| 0.02 + 0.2 * hill(at, 20.0, 3.0);
    Overview {
        first_check: None,
        requests: Figure { value: w.f(731.0), course: course(731.0, 30) },
        fleet_requests: Some((3, w.f(2_184.0))),
        refused_share: Figure { value: w.f(0.031), course: (0..32).map(share).collect() },
        check_p99_ms: Figure { value: w.f(0.314), course: course(0.31, 31) },
        without_store: Figure {
            value: w.f(412.0),
            course: (0..32).map(|at| if at < 27 { 0.0 } else { 400.0 }).collect(),
        },
        course: requests(w, 1.0),
        most_refused: top(w),
        most_refused_of: FiguresOf { nodes: 2, silent: 1, is_cut_off: false },
        top_seconds: w.n(300),
        rules: rule_rows(w).into_iter().take(5).collect(),
        check_latency: latency(w, 0.4),
        store_latency: latency(w, 1.0),
        stores: stores(w),
        memory: memory(w),
        nodes: nodes(w),
        cut_off_since: None,
    }
}

/// The first day.
pub(crate) fn first(w: Words) -> Overview {
    let node = NodeRow {
        name: w.t("tg-a"),
        version: w.t("0.2.0"),
        is_this: true,
        seen_at: NOW,
        state: Some(NodeState::default()),
        revision: 1,
        revision_at: Some(before(12)),
        ..NodeRow::default()
    };
    Overview {
        first_check: Some(FirstCheck { base_url: w.t("http://127.0.0.1:8080"), needs_token: true }),
        memory: Memory { max_bytes: 268_435_456, ..Memory::default() },
        nodes: Section::Ready(vec![node]),
        ..Overview::default()
    }
}
