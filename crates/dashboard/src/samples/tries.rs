//! A request explained, a decision of the past, and a log replayed.

use super::clients::decisions;
use super::overview::{course, quota, requests, top};
use super::{Words, before};
use crate::model::{
    AlgorithmRow, CounterFigures, CounterState, ExplainedDecision, ExplainedRule, Explanation,
    RequestSeries, ShadowedClient, SimulateForm, SimulatedClient, SimulatedRule, Simulation,
    SimulationReport, TryForm, TryRequest, Verdict,
};

fn request(w: Words) -> TryForm {
    TryForm {
        method: w.t("POST"),
        endpoint: w.t("/export"),
        user_id: w.t("u_8121"),
        tenant: w.t("acme"),
        ip: w.t("198.51.100.23"),
        cost: w.t("1"),
        attributes: w.t("plan=pro"),
        ..TryForm::default()
    }
}

fn explained(w: Words) -> Vec<ExplainedRule> {
    let figures = |limit, remaining, is_exceeded| CounterFigures {
        limit: w.n(limit),
        remaining,
        is_exceeded,
        window_reset_ms: Some(w.n(21_300_000)),
        reset_ms: w.n(39_300_000),
        next_ms: Some(w.n(39_300_000)),
        state: CounterState::Normal,
    };
    let rule = |rule_id: &str, quota, because: &str| ExplainedRule {
        rule_id: w.t(rule_id),
        because: w.t(because),
        cost: w.n(1),
        quota,
        ..ExplainedRule::default()
    };
    vec![
        ExplainedRule {
            applies: true,
            key: vec![w.part("tenant", "acme")],
            figures: Some(figures(20, 0, true)),
            binds: true,
            ..rule("exports", quota(w, 20, 86_400_000, None, &["tenant"]), "longest wait")
        },
        ExplainedRule {
            applies: true,
            key: vec![w.part("user_id", "u_8121")],
            figures: Some(CounterFigures {
                state: CounterState::Warning,
                ..figures(2_000, 97, false)
            }),
            quota_origin: w.some("an override by user_id, until 15:00"),
            ..rule("per_user", quota(w, 2_000, 3_600_000, None, &["user_id"]), "all or nothing")
        },
        ExplainedRule {
            applies: true,
            is_shadow: true,
            banned_until: Some(before(0)),
            ..rule("search_shadow", quota(w, 30, 60_000, None, &["user_id"]), "")
        },
        rule("login", quota(w, 5, 60_000, None, &["ip"]), "endpoint /login does not match /export"),
        ExplainedRule {
            replaced_by: w.some("exports"),
            ..rule("api_burst", quota(w, 10, 1_000, Some(50), &["ip"]), "")
        },
    ]
}

/// A composed request.
pub(crate) fn try_request(w: Words) -> TryRequest {
    TryRequest {
        form: request(w),
        problem: None,
        can_check: true,
        explanation: Some(Explanation {
            verdict: Verdict::Refused,
            binding: w.some("exports"),
            retry_ms: Some(w.n(39_300_000)),
            revision: w.n(42),
            path: w.some("/export"),
            identity: vec![
                w.part("user_id", "u_8121"),
                w.part("tenant", "acme"),
                w.part("ip", "198.51.100.23"),
            ],
            tier: w.some("pro"),
            tier_origin: w.t("from the directory, by user_id"),
            listed: (w.n(0) != 0).then(|| (false, w.t("ip"), w.some("scraper"))),
            rules: explained(w),
            has_envoy_limits: w.n(0) != 0,
            ..Explanation::default()
        }),
    }
}

/// A decision of the past.
pub(crate) fn decision(w: Words) -> ExplainedDecision {
    let mut row = decisions(w, 2).remove(1);
    row.remaining = Some(0);
    ExplainedDecision {
        decision: row,
        because: w.t("rule login was exceeded and binds"),
        identifiers: vec![w.part("ip", "198.51.100.23"), w.part("user_id", "u_8121")],
        uncounted: w.t("No rule was counted: the client is on a list."),
        tier: w.some("pro"),
        revision: Some(w.n(42)),
        rules: explained(w),
        source: w.some("the node tg-b, which made it"),
        can_refund: true,
        again: request(w),
    }
}

/// The form of the simulator.
pub(crate) fn form(w: Words) -> SimulateForm {
    SimulateForm {
        max_bytes: 67_108_864,
        formats: w.list(&["auto", "combined", "json", "envoy"]),
        format: w.t("auto"),
        is_edited: false,
        yaml: w.t(
            "rules:\n  - rule_id: login\n    limit: 5\n    window: 1m\n    identifier_type: ip\n",
        ),
    }
}

/// A log replayed.
pub(crate) fn simulation(w: Words) -> Simulation {
    let rule = |rule_id: &str, limit, applied, exceeded, clients| SimulatedRule {
        rule_id: w.t(rule_id),
        quota: quota(w, limit, 60_000, None, &["ip"]),
        is_shadow: false,
        applied: w.n(applied),
        exceeded: w.n(exceeded),
        clients: w.n(clients),
    };
    let names = [
        "token_bucket",
        "leaky_bucket",
        "gcra",
        "fixed_window",
        "sliding_window_counter",
        "sliding_window_log",
    ];
    let algorithms = names.iter().enumerate().map(|(at, name)| AlgorithmRow {
        algorithm: w.t(name),
        is_in_use: at == 4,
        allowed: w.n(9_500),
        refused: w.n(500 - 23 * at as u64),
        clients_refused: w.n(31),
        delayed: if at == 1 { w.n(120) } else { 0 },
        longest_delay_ms: w.n(1_800),
        unlike_log: w.n(40 - 8 * at as u64),
        course: course(20.0, at as u64),
    });
    let top = top(w).into_iter().map(|row| SimulatedClient {
        client: row.client.name,
        requests: w.n(row.count.saturating_mul(3)),
        refused: w.n(row.count),
        rule_id: row.rule_id,
        first_refused: Some(before(9_000)),
        path: w.some("/login"),
        user_agent: w.some("python-requests/2.32"),
    });
    Simulation {
        form: form(w),
        report: Some(SimulationReport {
            rules_in_force: vec![w.t("login")],
            file: w.t("access-2015.log"),
            format: w.t("combined"),
            skipped_lines: w.n(2),
            first_skipped: w.some("line 8899: no time"),
            from: before(14_400),
            until: before(120),
            requests: w.n(10_000),
            allowed: w.n(9_588),
            refused: w.n(412),
            delayed: w.n(0),
            longest_delay_ms: 0,
            unlimited: w.n(23),
            clients: w.n(1_753),
            clients_refused: w.n(31),
            course: RequestSeries { marks: Vec::new(), ..requests(w, 0.01) },
            rules: vec![rule("login", 5, 812, 391, 3), rule("api_burst", 600, 9_977, 21, 28)],
            top: top.collect(),
            in_shadow: vec![ShadowedClient {
                client: w.t("203.0.113.66"),
                rule_id: w.t("login~candidate"),
                requests: w.n(1_236),
                exceeded: w.n(511),
            }],
            algorithms: algorithms.collect(),
            caveat: w.some("The log has whole seconds: bursts within a second are spread evenly."),
        }),
        ..Simulation::default()
    }
}
