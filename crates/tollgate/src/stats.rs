//! Counts the outcomes of each rule. Counts belong to the rule's id and survive a change of policy.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::Serialize;
use tollgate_rules::RuleSet;

/// How often one rule admitted, refused, warned, since the limiter has the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleCounts {
    /// Requests that fitted.
    pub admitted: u64,
    /// Requests that did not fit, and were refused by this rule.
    pub refused: u64,
    /// Requests of clients that this rule had banned.
    pub banned: u64,
    /// Requests that exceeded a shadow rule.
    pub would_refuse: u64,
    /// Requests above the soft limit.
    pub warned: u64,
    /// Requests that were delayed.
    pub delayed: u64,
    /// Requests decided without the shared store: the sum of the next three.
    pub degraded: u64,
    /// Requests counted on this node while the store was unavailable (`on_store_failure: local`).
    pub fallback_local: u64,
    /// Requests that passed uncounted while the store was unavailable (`open`).
    pub fallback_open: u64,
    /// Requests refused because the store was unavailable (`closed`).
    pub fallback_closed: u64,
}

/// What a rule did with a request while the shared store was unavailable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fallback {
    Local,
    Open,
    Closed,
}

const FALLBACKS: usize = 3;

/// An event that is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Admitted,
    Refused,
    Banned,
    WouldRefuse,
    Warned,
    Delayed,
}

const EVENTS: usize = 6;
const STRIPES: usize = 4;

/// Counters of one rule, striped so that threads seldom write to the same cache line.
#[derive(Debug, Default)]
pub(crate) struct RuleCounters {
    stripes: [Stripe; STRIPES],
    /// Rare, so threads may share them.
    fallbacks: [AtomicU64; FALLBACKS],
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe([AtomicU64; EVENTS]);

thread_local! {
    static STRIPE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Threads take stripes in turn.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    STRIPE.with(|stripe| {
        stripe.get().unwrap_or_else(|| {
            let taken = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
            stripe.set(Some(taken));
            taken
        })
    })
}

impl RuleCounters {
    pub(crate) fn count(&self, event: Event) {
        self.stripes[stripe()].0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_fallback(&self, fallback: Fallback) {
        self.fallbacks[fallback as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> RuleCounts {
        let sum = |event: Event| {
            self.stripes.iter().map(|stripe| stripe.0[event as usize].load(Ordering::Relaxed)).sum()
        };
        let [fallback_local, fallback_open, fallback_closed] =
            self.fallbacks.each_ref().map(|count| count.load(Ordering::Relaxed));
        RuleCounts {
            admitted: sum(Event::Admitted),
            refused: sum(Event::Refused),
            banned: sum(Event::Banned),
            would_refuse: sum(Event::WouldRefuse),
            warned: sum(Event::Warned),
            delayed: sum(Event::Delayed),
            degraded: fallback_local + fallback_open + fallback_closed,
            fallback_local,
            fallback_open,
            fallback_closed,
        }
    }
}

/// Counters for every rule of a set; those of rules that were there before go on.
pub(crate) fn carry_over(
    rules: &RuleSet,
    before: Option<(&RuleSet, &[Arc<RuleCounters>])>,
) -> Vec<Arc<RuleCounters>> {
    let known = |id: &str| {
        let (rules, stats) = before?;
        stats.get(rules.index_of(id)?).cloned()
    };
    rules.iter().map(|rule| known(&rule.id).unwrap_or_default()).collect()
}
