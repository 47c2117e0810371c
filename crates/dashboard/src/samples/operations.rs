//! Audit, lists, keys and health.

use super::clients::{decisions as decision_rows, overrides as override_rows};
use super::overview::{latency, memory, nodes, stores, top};
use super::{Words, after, before};
use crate::model::{
    ApiKeyRow, Audit, AuditFilter, AuditRow, AuditTab, BanRow, CatalogHealth, CreatedSecret,
    DiffKind, DiffLine, FallbackGroup, FallbackMode, FileHealth, Health, HealthFact, HotKey, Keys,
    ListRow, ListTab, Lists, Outcome, Paging, Section, TokenRow,
};

/// The log of changes.
pub(crate) fn changes(w: Words) -> Audit {
    let row = |revision, seconds, kind: &str, entry: &str, action: &str, summary: &str| AuditRow {
        revision,
        at: before(seconds),
        actor: w.t("c6291dbc9385"),
        actor_name: w.some("ops-1"),
        role: w.t("operator"),
        address: w.some("198.51.100.4"),
        kind: w.t(kind),
        entry: w.t(entry),
        action: w.t(action),
        summary: w.t(summary),
        diff: vec![
            DiffLine { kind: DiffKind::Removed, text: w.t("limit: 10") },
            DiffLine { kind: DiffKind::Added, text: w.t("limit: 5") },
        ],
    };
    let rows = vec![
        row(42, 3_000, "rule", "exports", "update", "identifier_type user_id → tenant"),
        row(41, 8_400, "rule", "login", "update", "limit 10 → 5"),
        row(41, 8_410, "counters", "per_user · u_8121", "reset", ""),
        row(40, 90_000, "blacklist", "ip 203.0.113.0/24", "create", "scraper, for 1 day"),
        row(39, 500_000, "token", "0123456789ab", "delete", ""),
    ];
    Audit {
        kinds: w.list(&[
            "rule",
            "tier",
            "client",
            "override",
            "whitelist",
            "blacklist",
            "api_key",
            "token",
            "ban",
            "counters",
        ]),
        changes: Section::Ready(rows),
        paging: Paging { next: Some("before=39".to_owned()), first: None, total: None },
        ..Audit::default()
    }
}

/// The log of decisions.
pub(crate) fn decisions(w: Words) -> Audit {
    Audit {
        tab: AuditTab::Decisions,
        filter: AuditFilter {
            action: Outcome::REFUSALS.to_owned(),
            since: w.t("2025-11-18T09:00:00Z"),
            ..AuditFilter::default()
        },
        decisions: Section::Ready(decision_rows(w, 25)),
        paging: Paging {
            next: Some("before=1".to_owned()),
            first: Some(String::new()),
            total: None,
        },
        ..changes(w)
    }
}

fn lists(w: Words, tab: ListTab) -> Lists {
    Lists {
        tab,
        counts: [Some(w.n(2)), Some(w.n(3)), Some(w.n(1)), Some(w.n(2))],
        identifier_types: w.list(&["ip", "user_id", "api_key", "tenant"]),
        rule_ids: w.list(&["login", "api_burst", "per_user"]),
        ..Lists::default()
    }
}

/// Bans.
pub(crate) fn bans(w: Words) -> Lists {
    let rows = top(w).into_iter().take(2).map(|row| BanRow {
        client: row.client,
        rule_id: w.t("login"),
        identifier: w.list(&["203.0.113.66"]),
        tenant: w.some("acme"),
        made_at: Some(before(188)),
        until: after(412),
        can_lift: true,
    });
    Lists { bans: Section::Ready(rows.collect()), ..lists(w, ListTab::Bans) }
}

/// The deny list.
pub(crate) fn deny_list(w: Words) -> Lists {
    let row = |kind: &str, value: &str, reason: &str, end| ListRow {
        identifiers: vec![w.part(kind, value)],
        reason: (!reason.is_empty()).then(|| w.t(reason)),
        expires_at: end,
        written_by: w.some("token ops-1"),
        written_at: Some(before(90_000)),
        can_remove: true,
    };
    let rows = vec![
        row("ip", "203.0.113.0/24", "scraper", Some(after(86_400))),
        row("user_id", "u_666", "stolen credentials, see ticket 4711", None),
        row("api_key", "sha256:9f2c…e1", "", Some(after(3_600))),
    ];
    Lists { entries: Section::Ready(rows), ..lists(w, ListTab::Blacklist) }
}

/// Overrides.
pub(crate) fn overrides(w: Words) -> Lists {
    Lists { overrides: Section::Ready(override_rows(w)), ..lists(w, ListTab::Overrides) }
}

/// Keys and tokens.
pub(crate) fn keys(w: Words) -> Keys {
    let token = |token_id: &str, name: &str, role: &str, used, end| TokenRow {
        token_id: w.t(token_id),
        name: w.some(name),
        role: w.t(role),
        created_at: Some(before(900_000)),
        created_by: w.some("admin"),
        last_used: used,
        expires_at: end,
        ..TokenRow::default()
    };
    let key = |key_id: &str, name: &str, owner: Option<&str>| ApiKeyRow {
        key_id: w.t(key_id),
        name: w.some(name),
        owner: owner.map(|owner| w.t(owner)),
        tier: w.some("pro"),
        tenant: w.some("acme"),
        created_at: Some(before(500_000)),
        created_by: w.some("token ops-1"),
    };
    Keys {
        created: Some(CreatedSecret {
            kind: w.t("token"),
            id: w.t("7c1e9a20b4d3"),
            secret: w.t("tg_7c1e9a20b4d3_not_a_real_secret_only_a_sample"),
        }),
        tokens: Some(Section::Ready(vec![
            TokenRow {
                is_own: true,
                ..token(
                    "0123456789ab",
                    "ops-1",
                    "operator",
                    Some(before(20)),
                    Some(after(6_000_000)),
                )
            },
            TokenRow {
                tenant: w.some("acme"),
                ..token("89abcdef0123", "Acme's own", "tenant-admin", Some(before(400_000)), None)
            },
            token("7c1e9a20b4d3", "dashboard on the wall", "viewer", None, Some(after(7_776_000))),
        ])),
        api_keys: Section::Ready(vec![
            key("4d3c2b1a0f9e", "the nightly import", Some("importer")),
            key("aa11bb22cc33", "partner shop", None),
        ]),
        roles: w.list(&["viewer", "operator", "tenant-admin", "caller", "admin"]),
        tiers: w.list(&["free", "pro", "enterprise"]),
        ..Keys::default()
    }
}

/// Health, with a store server away.
pub(crate) fn health(w: Words) -> Health {
    let group = |mode, rule_ids: &[&str], allowance: &str, per_second| FallbackGroup {
        mode,
        rule_ids: w.list(rule_ids),
        rules: rule_ids.len() as u64,
        allowance: w.t(allowance),
        per_second: w.f(per_second),
        requests: w.n((per_second * 1_132.0) as u64),
    };
    let fact = |name: &str, value: &str, is_bad, hint: &str| HealthFact {
        name: w.t(name),
        value: w.t(value),
        is_bad,
        hint: w.t(hint),
    };
    let hot = top(w).into_iter().take(2).map(|row| HotKey {
        rule_id: w.t("api_burst"),
        name: row.client.name,
        identifiers: row.client.identifiers,
        per_second: w.f(412.0),
        share: w.f(0.188),
    });
    Health {
        store: w.t("redis://redis-1:6379, redis://redis-2:6379"),
        stores: stores(w),
        drift_warning_seconds: 1.0,
        fallbacks: vec![
            FallbackGroup {
                rules: 12,
                ..group(
                    FallbackMode::Local,
                    &["api_burst", "per_user", "exports"],
                    "2x the limit on each node",
                    391.0,
                )
            },
            group(FallbackMode::Closed, &["login"], "", 21.0),
            group(FallbackMode::Open, &["search"], "", 0.0),
            group(FallbackMode::NotShared, &["health_probe"], "", 0.0),
        ],
        store_latency: latency(w, 1.0),
        catalog: Some(CatalogHealth {
            location: w.t("postgres://catalog.internal/tollgate"),
            synced_at: Some(before(1)),
            is_reachable: w.n(0) == 0,
            error: (w.n(0) != 0).then(|| w.t("connection refused")),
            revision: w.n(42),
            copy: (w.n(0) != 0).then(|| w.t("catalog-copy.json")),
        }),
        files: vec![FileHealth {
            what: w.t("limits of Envoy"),
            path: w.t("/etc/tollgate/envoy"),
            loaded_at: Some(before(86_000)),
            error: w.some("shop.yaml line 12: unit `minuet`, did you mean `minute`?"),
        }],
        hot_keys: hot.collect(),
        memory: memory(w),
        facts: vec![
            fact("Decisions lost for the log", "0", false, ""),
            fact("Bans that the catalog did not store", "3", true, "they hold on this node only"),
            fact("Idempotency keys remembered", "1,204", false, ""),
            fact("Copies of the policy that were refused", "0", false, ""),
        ],
        nodes: nodes(w),
        cut_off_since: Some(before(90)),
    }
}
