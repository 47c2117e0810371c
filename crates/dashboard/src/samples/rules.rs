//! The rules, and one rule that is being edited.

use super::overview::{candidate, course, quota, requests, rule_rows, top};
use super::{Words, before};
use crate::model::{
    CandidateEffect, CandidateFigures, DeletedRule, DiffKind, DiffLine, EditConflict, EditMode,
    EditedRule, Effect, EffectClient, EffectPreview, FiguresOf, Finding, FindingKind, Paging,
    Quota, RuleForm, RuleRevision, Rules, Section,
};

const YAML: &str = "rule_id: login\nname: Logins per address\nlimit: 10\nwindow: 1m\nalgorithm: sliding_window_log\nidentifier_type: ip\napplies_to:\n  endpoints: [\"/login\"]\n  methods: [POST]\non_store_failure: closed\npenalty: {after: 5, within_seconds: 60, ban_seconds: 600}\n";

/// The list.
pub(crate) fn rules(w: Words) -> Rules {
    Rules {
        query: String::new(),
        rows: rule_rows(w),
        rules_in_all: w.n(6),
        paging: Paging {
            next: Some("after=search_shadow".to_owned()),
            first: None,
            total: Some(w.n(1_006)),
        },
        ..Rules::default()
    }
}

/// One rule, as a form.
pub(crate) fn rule(w: Words) -> EditedRule {
    EditedRule {
        rule_id: w.t("login"),
        quota: Some(quota(w, 5, 60_000, None, &["ip"])),
        applies_to: w.t("POST /login"),
        version: Some(7),
        updated_at: Some(before(8_400)),
        updated_by: w.some("token ops-1"),
        is_writable: true,
        form: form(w),
        yaml: w.t(YAML),
        findings: vec![Finding {
            kind: FindingKind::Advice,
            field: w.t("identifier_type"),
            line: Some(6),
            message: w.t("behind a proxy all clients share its address"),
            advice: w.some("set identity.trusted_proxies"),
        }],
        diff: vec![
            line(w, DiffKind::Same, "name: Logins per address"),
            line(w, DiffKind::Removed, "limit: 5"),
            line(w, DiffKind::Added, "limit: 10"),
            line(w, DiffKind::Same, "window: 1m"),
        ],
        effect: EffectPreview::Replayed(effect(w)),
        course: requests(w, 0.014),
        most_refused: top(w),
        most_refused_of: FiguresOf { nodes: 1, silent: 0, is_cut_off: true },
        top_seconds: w.n(300),
        candidate: Some(CandidateFigures {
            clients: top(w).into_iter().take(2).collect(),
            ..candidate(w)
        }),
        overrides: w.n(2),
        bans: w.n(1),
        history: Section::Ready(history(w)),
        ..EditedRule::default()
    }
}

/// One rule, as text, with an error.
pub(crate) fn rule_as_yaml(w: Words) -> EditedRule {
    let error = Finding {
        kind: FindingKind::Error,
        field: w.t("window"),
        line: Some(4),
        message: w.t("`1mm` is no window"),
        advice: w.some("write a number and a unit, as 500ms, 10s, 5m, 1h or 1d"),
    };
    let why = w.t("The rule has errors: mend them first.");
    let mut model = EditedRule { mode: EditMode::Yaml, effect: EffectPreview::Off(why), ..rule(w) };
    model.findings.insert(0, error);
    model.conflict = Some(EditConflict {
        based_on: w.n(40),
        version: w.n(41),
        diff: vec![
            line(w, DiffKind::Same, "rule_id: login"),
            line(w, DiffKind::Removed, "limit: 5"),
            line(w, DiffKind::Added, "limit: 10"),
        ],
    });
    model
}

/// A rule that was deleted.
pub(crate) fn deleted(w: Words) -> DeletedRule {
    DeletedRule {
        rule_id: w.t("login"),
        deleted_at: before(600),
        deleted_by: w.t("token ops-1"),
        revision: w.n(42),
        yaml: w.t(YAML),
        is_writable: true,
        history: Section::Ready(history(w)),
    }
}

fn line(w: Words, kind: DiffKind, text: &str) -> DiffLine {
    DiffLine { kind, text: w.t(text) }
}

fn form(w: Words) -> RuleForm {
    RuleForm {
        rule_id: w.t("login"),
        name: w.t("Logins per address"),
        description: w.t("Keeps password guessing slow."),
        limit: w.t("10"),
        window: w.t("1m"),
        algorithm: w.t("sliding_window_log"),
        identifier_type: w.t("ip"),
        endpoints: w.t("/login"),
        methods: w.t("POST"),
        action: w.t("reject"),
        on_missing: w.t("skip"),
        cost: w.t("1"),
        consistency: w.t("strict"),
        on_store_failure: w.t("closed"),
        fallback_factor: w.t("2"),
        penalty_after: w.t("5"),
        penalty_within_seconds: w.t("60"),
        penalty_ban_seconds: w.t("600"),
        candidate_limit: w.t("4"),
        enabled: true,
        others: w.list(&["refusal", "replaces"]),
        ..RuleForm::default()
    }
}

fn effect(w: Words) -> Effect {
    let client = |value: &str, requests, now, then| EffectClient {
        client: w.client("ip", value),
        requests: w.n(requests),
        now: w.n(now),
        then: w.n(then),
    };
    let now = course(6.0, 40);
    let then = now.iter().map(|value| value * 0.74).collect();
    Effect {
        since: before(13_680),
        until: before(1),
        requests: w.n(12_400),
        refused_now: w.n(412),
        refused_then: w.n(305),
        clients_now: w.n(3),
        clients_then: w.n(2),
        start: before(13_680),
        step_seconds: 420,
        course_now: now,
        course_then: then,
        clients: vec![
            client("203.0.113.66", 1_204, 391, 301),
            client("198.51.100.7", 88, 15, 4),
            client("192.0.2.81", 41, 6, 0),
        ],
        clients_unchanged: w.n(4),
        candidate: Some(Box::new(CandidateEffect {
            quota: Quota {
                limit: w.n(4),
                window_ms: 60_000,
                identifiers: w.list(&["ip"]),
                ..Quota::default()
            },
            requests: w.n(11_988),
            refused: w.n(96),
            clients_refused: w.n(1),
            clients: vec![client("203.0.113.66", 813, 0, 96)],
        })),
        caveat: w
            .some("Counters start empty at 09:12, so the first minute refuses less than it did."),
    }
}

fn history(w: Words) -> Vec<RuleRevision> {
    let row = |revision, seconds, actor: &str, summary: &str, can_restore| RuleRevision {
        revision,
        at: before(seconds),
        actor: w.t(actor),
        summary: w.t(summary),
        note: None,
        can_restore,
    };
    vec![
        row(41, 8_400, "token ops-1", "limit 10 → 5", false),
        RuleRevision {
            note: w.some("rollback to revision 38"),
            ..row(40, 9_000, "token ops-1", "limit 5 → 10", true)
        },
        row(39, 500_000, "ci", "penalty added", true),
    ]
}
