//! Counts the outcomes of each rule. Counts belong to the rule's id and survive a change of policy.

mod stripe;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tollgate_rules::{Rule, RuleSet};

use self::stripe::{STRIPES, Stripe};

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
/// The same for other events, which are less frequent.
const RARE_STRIPES: usize = 4;
/// How many counts share a cache line.
const COUNTS_PER_LINE: usize = 8;

/// Counters of one rule, in a block with those of other rules.
#[derive(Clone, Debug)]
pub(crate) struct RuleCounters {
    block: Arc<CounterBlock>,
    place: usize,
}

/// Counters of rules that came with the same policy. Nearly every request is admitted, by neighbouring rules: counts of
/// admissions are side by side, so that a request writes to one cache line, and not to one for each rule.
#[derive(Debug)]
struct CounterBlock {
    /// One row for each stripe.
    admitted: Box<[AtomicU64]>,
    row: usize,
    rare: Box<[RareCounters]>,
}

/// Striped, so that threads seldom write to the same cache line.
#[derive(Debug, Default)]
struct RareCounters {
    stripes: [EventCounts; RARE_STRIPES],
    /// So rare that threads may share them.
    fallbacks: [AtomicU64; FALLBACKS],
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct EventCounts([AtomicU64; EVENTS]);

impl CounterBlock {
    fn new(rules: usize) -> Self {
        let row = rules.next_multiple_of(COUNTS_PER_LINE);
        Self {
            admitted: (0..row * STRIPES).map(|_| AtomicU64::new(0)).collect(),
            row,
            rare: (0..rules).map(|_| RareCounters::default()).collect(),
        }
    }
}

impl RuleCounters {
    #[inline]
    pub(crate) fn count(&self, event: Event) {
        let Self { block, place } = self;
        let stripe = Stripe::of_this_thread();
        match event {
            Event::Admitted => stripe.add_one(&block.admitted[stripe.row() * block.row + place]),
            _ => {
                let stripes = &block.rare[*place].stripes[stripe.row() % RARE_STRIPES];
                stripes.0[event as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn count_fallback(&self, fallback: Fallback) {
        let Self { block, place } = self;
        block.rare[*place].fallbacks[fallback as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> RuleCounts {
        let Self { block, place } = self;
        let (rare, read) = (&block.rare[*place], |count: &AtomicU64| count.load(Ordering::Relaxed));
        let sum =
            |event: Event| rare.stripes.iter().map(|stripe| read(&stripe.0[event as usize])).sum();
        let admitted = block.admitted.iter().skip(*place).step_by(block.row);
        let [fallback_local, fallback_open, fallback_closed] = rare.fallbacks.each_ref().map(read);
        RuleCounts {
            admitted: admitted.map(read).sum(),
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

/// Counters for every rule of a set; those of rules that were there before go on. A candidate with another limit is
/// another try, whose counts begin at 0.
pub(crate) fn carry_over(
    rules: &RuleSet,
    before: Option<(&RuleSet, &[RuleCounters])>,
) -> Vec<RuleCounters> {
    let known = |rule: &Rule| {
        let (rules, stats) = before?;
        let at = rules.index_of_counter(&rule.id)?;
        let is_same_try = !rule.is_candidate() || rules.get(at)?.quota == rule.quota;
        stats.get(at).filter(|_| is_same_try).cloned()
    };
    let known: Vec<Option<RuleCounters>> = rules.iter().map(known).collect();
    let new = known.iter().filter(|known| known.is_none()).count();
    let (block, mut places) = (Arc::new(CounterBlock::new(new)), 0..new);
    let mut next = || RuleCounters { block: Arc::clone(&block), place: places.next().unwrap_or(0) };
    known.into_iter().map(|known| known.unwrap_or_else(&mut next)).collect()
}
