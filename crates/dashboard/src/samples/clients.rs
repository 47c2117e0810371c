//! Clients, one client, and the live page.

use super::overview::{quota, top};
use super::{NOW, Words, after, before};
use crate::model::{
    Client, ClientBan, ClientLimit, ClientListing, ClientTier, Clients, DecisionRow, FiguresOf,
    FoundClient, Live, Outcome, OverrideRow, RefusedRequest, Section, TailFilter, Time, TopList,
};

const TYPES: [&str; 4] = ["user_id", "api_key", "ip", "tenant"];

/// The search.
pub(crate) fn clients(w: Words) -> Clients {
    let rows = top(w).into_iter().enumerate().map(|(at, row)| FoundClient {
        client: row.client,
        is_typed: at % 2 == 0,
        tier: (at % 2 == 0).then(|| w.t("pro")),
        recorded: Some(w.n(row.count.saturating_mul(3))),
        refused: Some(w.n(row.count)),
        seen_at: Some(before(at as u64 * 13)),
        known: w.list(&["seen in the last 5 min"]),
        marks: if at == 0 { w.list(&["banned"]) } else { Vec::new() },
    });
    Clients {
        query: w.t(""),
        identifier_type: String::new(),
        identifier_types: w.list(&TYPES),
        window_seconds: 300,
        found: Section::Ready(rows.collect()),
        ..Clients::default()
    }
}

/// Decisions of the last seconds.
pub(crate) fn decisions(w: Words, count: usize) -> Vec<DecisionRow> {
    let kinds = [
        (Outcome::Allowed, "GET", "/orders", "per_user", None),
        (Outcome::Refused, "POST", "/login", "login", Some("rate_limited")),
        (Outcome::Allowed, "GET", "/api/v2/orders/{id}/items", "api_burst", None),
        (Outcome::Throttled, "GET", "/search", "api_burst", None),
        (Outcome::Denied, "POST", "/login", "login", Some("banned")),
        (Outcome::WouldRefuse, "GET", "/search", "search_shadow", None),
        (Outcome::Denied, "GET", "/", "", Some("denied")),
    ];
    let clients = [("user_id", "u_8121"), ("ip", "203.0.113.66"), ("api_key", "key_9f2c…e1")];
    (0..count)
        .map(|at| {
            let (outcome, method, endpoint, rule, reason) = kinds[at % kinds.len()];
            let (kind, value) = clients[at % clients.len()];
            DecisionRow {
                at: Time::from_millis(NOW.as_millis() - 187 - at as u64 * 731),
                decision_id: w.some(&format!("d1f00dbee-a{at:x}")),
                outcome,
                client: w.client(kind, value),
                tenant: None,
                method: w.some(method),
                endpoint: w.some(endpoint),
                rule_id: (!rule.is_empty()).then(|| w.t(rule)),
                also_would_refuse: match outcome {
                    Outcome::WouldRefuse => w.list(&["per_user~candidate"]),
                    _ => Vec::new(),
                },
                reason: reason.map(|reason| w.t(reason)),
                cost: 1,
                limit: Some(w.n(1_000)),
                remaining: outcome.passed().then(|| w.n(97)).or(Some(0)),
                retry_after: (!outcome.passed()).then(|| w.n(41)),
                degraded: (at % 6 == 5).then(|| w.t("timeout")),
                node: w.some(["tg-a", "tg-b"][at % 2]),
            }
        })
        .collect()
}

/// One client.
pub(crate) fn client(w: Words) -> Client {
    let limit = |rule_id: &str, quota, capacity, remaining, reset| ClientLimit {
        rule_id: w.t(rule_id),
        quota,
        key: vec![w.part("user_id", "u_8121")],
        capacity: w.n(capacity),
        remaining: if w.n(0) == 0 { remaining } else { 0 },
        resets_at: Some(after(reset)),
        full_at: Some(after(reset)),
        ..ClientLimit::default()
    };
    let mut rows = decisions(w, 6);
    for row in &mut rows {
        row.node = None;
        row.client = w.client("user_id", "u_8121");
    }
    Client {
        identifiers: vec![w.part("tenant", "acme"), w.part("user_id", "u_8121")],
        endpoint: w.t("/export"),
        method: w.t("POST"),
        tier: Some(ClientTier { name: w.t("pro"), origin: w.t("put into it"), is_assigned: true }),
        limits: vec![
            limit("exports", quota(w, 20, 86_400_000, None, &["tenant"]), 20, 0, 39_300),
            ClientLimit {
                is_warned: true,
                is_override: true,
                override_until: Some(after(7_200)),
                ..limit(
                    "per_user",
                    quota(w, 1_000, 3_600_000, None, &["user_id"]),
                    1_000,
                    97,
                    1_260,
                )
            },
            ClientLimit {
                key: vec![w.part("ip", "198.51.100.23")],
                with: vec![w.part("ip", "198.51.100.23")],
                refused: Some(RefusedRequest {
                    at: before(40),
                    decision_id: w.t("d1f00dbee-r7"),
                    method: w.some("GET"),
                    endpoint: w.some("/orders"),
                    has_passed: false,
                }),
                ..limit("api_burst", quota(w, 10, 1_000, Some(50), &["ip"]), 50, 0, 2)
            },
            ClientLimit {
                is_shadow: true,
                candidate_of: w.some("api_burst"),
                refused: Some(RefusedRequest {
                    at: before(50),
                    decision_id: w.t("d1f00dbee-r6"),
                    method: w.some("GET"),
                    endpoint: w.some("/orders"),
                    has_passed: true,
                }),
                ..limit("api_burst~candidate", quota(w, 5, 1_000, None, &["ip"]), 5, 0, 1)
            },
            ClientLimit {
                is_shadow: true,
                resets_at: None,
                full_at: None,
                ..limit("search_shadow", quota(w, 30, 60_000, None, &["user_id"]), 30, 30, 0)
            },
        ],
        not_applying: vec![
            (w.t("login"), w.t("endpoint /login does not match /export")),
            (w.t("legacy_v1"), w.t("the rule is disabled")),
        ],
        seen_with: vec![w.part("ip", "198.51.100.23")],
        decisions: Section::Ready(rows),
        overrides: Section::Ready(overrides(w)),
        tiers: w.list(&["free", "pro", "enterprise"]),
        ..Client::default()
    }
}

/// A client that is banned and on the deny list.
pub(crate) fn banned(w: Words) -> Client {
    Client {
        identifiers: vec![w.part("ip", "203.0.113.66")],
        endpoint: String::new(),
        method: String::new(),
        tier: None,
        bans: vec![ClientBan {
            rule_id: w.t("login"),
            reason: w.t("refused 5 times within 60 seconds"),
            until: after(412),
            identifier: w.list(&["203.0.113.66"]),
        }],
        listings: vec![ClientListing {
            is_allowed: false,
            entry: vec![w.part("ip", "203.0.113.0/24")],
            reason: w.some("scraper"),
            expires_at: Some(after(86_400)),
        }],
        limits: Vec::new(),
        overrides: Section::default(),
        ..client(w)
    }
}

/// Overrides of clients.
pub(crate) fn overrides(w: Words) -> Vec<OverrideRow> {
    vec![
        OverrideRow {
            identifiers: vec![w.part("user_id", "u_8121")],
            rule_id: w.t("per_user"),
            what: w.t("2 times the limit"),
            starts_at: None,
            expires_at: Some(after(7_200)),
            written_by: w.some("token ops-1"),
            can_remove: true,
        },
        OverrideRow {
            identifiers: vec![w.part("tenant", "acme"), w.part("user_id", "importer")],
            rule_id: w.t("api_burst"),
            what: w.t("limit 5,000, burst 10,000"),
            starts_at: Some(after(600)),
            expires_at: None,
            written_by: w.some("ci"),
            can_remove: false,
        },
    ]
}

/// The live page.
pub(crate) fn live(w: Words) -> Live {
    let rows = top(w);
    let scaled = |factor: u64| -> Vec<_> {
        let more = rows.iter().cloned().map(|mut row| {
            row.count = row.count.saturating_mul(factor);
            row
        });
        more.collect()
    };
    let near = rows.iter().cloned().zip([0.98, 0.941, 0.9, 0.87, 0.81]).map(|(mut row, used)| {
        row.used = Some(w.f(used));
        row
    });
    Live {
        window_seconds: 60,
        windows: vec![60, 300],
        of: FiguresOf { nodes: 3, silent: 0, is_cut_off: false },
        refused: TopList { rows: rows.clone(), may_lack: 0 },
        near_limit: TopList { rows: near.collect(), may_lack: 0 },
        busiest: TopList { rows: scaled(37), may_lack: w.n(12) },
        would_refuse: TopList { rows: rows.into_iter().take(2).collect(), may_lack: 0 },
        filter: TailFilter { endpoint: w.t(""), ..TailFilter::default() },
        tail_of: FiguresOf { nodes: 2, silent: 1, is_cut_off: false },
        tail: decisions(w, 20),
        caveat: w.some("All refusals, and 1 % of allowed requests."),
    }
}
