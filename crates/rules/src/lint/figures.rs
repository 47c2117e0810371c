//! Limits whose figures have no effect, or an unexpected one.

use tollgate_core::{Algorithm, Micros, Mode, Quota};

use super::{LintView, Suspect, applies_wherever};
use crate::compile::flaw::Flaw;
use crate::directory::overrides::Override;
use crate::document::{Consistency, OverrideDocument};
use crate::rule::Rule;
use crate::ruleset::RuleSet;

/// The largest limit for which Redis computes what memory would: the numbers of its scripts are
/// doubles.
const REDIS_EXACT: u64 = 1 << 40;

/// A wider counter runs out before this one possibly can.
pub(super) fn above_its_parent(view: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    let is_parent = |other: &&Rule| {
        other.identifiers.len() < rule.identifiers.len()
            && other.mode == Mode::Enforce
            && (other.consistency == Consistency::Strict || other.consistency == rule.consistency)
            && other.costs.are_at_least(&rule.costs)
            && applies_wherever(other, rule)
            && !view.is_replaced_anywhere(other)
            && runs_out_first(&other.quota, &rule.quota)
    };
    let parent = view.enabled().find(is_parent)?;
    Some(
        Flaw::new(
            format!(
                "the limit is never reached: {} counts the same requests together with others and \
                 allows {} per {} only",
                parent.id,
                parent.quota.limit,
                window(&parent.quota)
            ),
            format!("raise {} or lower this limit", parent.id),
        )
        .within("limit"),
    )
}

/// Whether a client within the first quota provably stays below the second. Requests of the
/// second are among those of the first and cost no more there.
fn runs_out_first(parent: &Quota, child: &Quota) -> bool {
    let blocks = parent.limit == 0;
    if blocks || parent.limit >= child.limit || parent.max_delay > Micros::ZERO {
        return false;
    }
    let capacity = |quota: &Quota| quota.burst.unwrap_or(quota.limit);
    let ceiling = capacity(parent).saturating_add(parent.grace);
    let is_same_window = parent.window == child.window && parent.calendar == child.calendar;
    if parent.algorithm == child.algorithm && is_same_window {
        return ceiling <= capacity(child);
    }
    // The most the parent admits while one window of the child passes, counted generously.
    let windows = u128::from(child.window.get().div_ceil(parent.window.get())) + 1;
    let most = u128::from(ceiling) + u128::from(parent.limit) * windows;
    // The weighted counter remembers two windows.
    let most = if child.algorithm == Algorithm::SlidingWindowCounter { most * 2 } else { most };
    most <= u128::from(capacity(child).min(child.limit))
}

/// Every request is free.
pub(super) fn never_denies(_: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    if rule.mode != Mode::Enforce || !rule.costs.are_all_free() {
        return None;
    }
    let message = "the rule never denies: every request costs 0 here";
    let advice =
        "give requests a cost, or write action: log_only if the rule is only to be watched";
    Some(Flaw::new(message, advice).within("cost"))
}

/// More than the numbers of a Redis script are sure to hold.
pub(super) fn beyond_redis(view: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    let is_shared = view.context.redis && rule.consistency == Consistency::Strict;
    let carried = || {
        let ceiling = rule.limit_from.as_deref()?.ceiling;
        beyond_exact(&Quota { limit: ceiling, ..rule.quota }).map(|(_, amount)| amount)
    };
    let tried = || beyond_exact(&view.candidate(rule)?.quota).map(|(_, amount)| amount);
    let found = beyond_exact(&rule.quota)
        .or_else(|| carried().map(|amount| ("limit_from.ceiling", amount)))
        .or_else(|| tried().map(|amount| ("candidate", amount)));
    let (field, amount) = found.filter(|_| is_shared)?;
    Some(inexact(amount).within(field))
}

/// An override whose limit is more than the numbers of a Redis script are sure to hold.
pub(super) fn override_beyond_redis(
    view: &LintView<'_>,
    document: &OverrideDocument,
) -> Option<Flaw> {
    let exception = Override::parse(document).ok().filter(|_| view.context.redis)?;
    exception_beyond_redis(view.rules, &exception)
}

/// As above, of an override that was read.
pub(super) fn exception_beyond_redis(rules: &RuleSet, exception: &Override) -> Option<Flaw> {
    let rule = rules.find(&exception.rule_id)?;
    let is_shared = rule.consistency == Consistency::Strict;
    let quota = exception.applied_to(&rule.quota);
    let beyond = beyond_exact(&quota).filter(|_| is_shared && beyond_exact(&rule.quota).is_none());
    Some(inexact(beyond?.1))
}

fn beyond_exact(quota: &Quota) -> Option<(&'static str, u64)> {
    let burst = quota.burst.unwrap_or_default();
    let with_grace = quota.burst.unwrap_or(quota.limit).saturating_add(quota.grace);
    let amounts = [("limit", quota.limit), ("burst", burst), ("soft.grace", with_grace)];
    amounts.into_iter().find(|(_, amount)| *amount > REDIS_EXACT)
}

fn inexact(amount: u64) -> Flaw {
    Flaw::new(
        format!("Redis counts exactly up to {REDIS_EXACT}, not {amount}"),
        "count in larger units, or use consistency: local",
    )
}

fn window(quota: &Quota) -> String {
    if let Some(calendar) = quota.calendar {
        return calendar.to_string();
    }
    let millis = quota.window.as_millis_ceil();
    if millis.is_multiple_of(1000) {
        format!("{} s", millis / 1000)
    } else {
        format!("{millis} ms")
    }
}
