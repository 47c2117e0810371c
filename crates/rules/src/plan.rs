//! What a request is to be charged: the outcome of matching, ready to be settled.

pub(crate) mod facts;
mod key_text;
pub(crate) mod planner;
pub(crate) mod tier;

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Charge, Key, Limit, Mode, Outcome, Report, Timestamp};

use crate::directory::bans::values_of;
use crate::plan::key_text::KeyText;
use crate::rule::Rule;
use crate::ruleset::RuleSet;

/// What is to be done with a request.
///
/// A plan owns its keys and borrows nothing, so it can outlive the request. Up to four lines and 128
/// bytes of keys, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether the lines are to be charged at all.
    pub admission: Admission,
    pub(crate) planned: SmallVec<[Planned; 4]>,
    /// The text of all keys, and of the tier.
    pub(crate) text: KeyText,
    pub(crate) tier: Option<Span>,
}

/// How a request stands before anything is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Charge the lines; without any, no rule applies.
    #[default]
    Judge,
    /// The client is on the list of those never limited. Nothing is counted.
    Allowed {
        /// Why, if the list says so.
        reason: Option<Arc<str>>,
    },
    /// The client is on the list of those always refused.
    Denied {
        /// Why, if the list says so.
        reason: Option<Arc<str>>,
        /// When that ends.
        expires_at: Option<Timestamp>,
    },
    /// A rule refuses requests that lack its identifier, and this one does.
    Missing {
        /// Where the rule stands in its set.
        rule: usize,
    },
    /// A rule refuses the client for a while. Of several, it is the one that does so longest.
    Banned {
        /// Where the rule stands in its set.
        rule: usize,
        /// When the ban ends.
        until: Timestamp,
    },
    /// No rule applies, and such requests are refused.
    Unmatched,
}

/// One line of a plan: one rule, one counter.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Where the rule stands in its set.
    pub rule: usize,
    /// Which of the subjects it is for; the first, if several share the counter.
    pub subject: usize,
    /// The limit of this client alone, if there is an exception for it. Rare, so it is kept apart:
    /// plans are copied for every request.
    pub own_limit: Option<Box<Limit>>,
    /// How much to charge.
    pub cost: u64,
    /// What a refusal means.
    pub mode: Mode,
    pub(crate) fingerprint: u64,
    pub(crate) key: KeySpans,
}

impl Planned {
    /// The limit of this client: its own, or that of `rule`, which is the rule of this line.
    #[must_use]
    #[inline]
    pub fn limit<'a>(&'a self, rule: &'a Rule) -> &'a Limit {
        self.own_limit.as_deref().unwrap_or(&rule.limit)
    }

    /// The result of this line, settled at `now`. `rule` is the rule of this line.
    #[must_use]
    #[inline]
    pub fn outcome(&self, rule: &Rule, now: Timestamp, admitted: bool, report: Report) -> Outcome {
        let limit = self.limit(rule);
        Outcome {
            rule: self.rule,
            mode: self.mode,
            admitted,
            limit: limit.capacity(),
            window: limit.refill_time_at(now),
            cost: self.cost,
            report,
            surplus: 0,
        }
    }

    /// The fingerprint of the counter's key.
    #[must_use]
    #[inline]
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

/// A line of a plan that was made before, for [`Plan::restore`].
#[derive(Clone, Copy, Debug)]
pub struct Restored<'a> {
    /// Where the rule stands in its set.
    pub rule: usize,
    /// How much was to be charged.
    pub cost: u64,
    /// What a refusal meant.
    pub mode: Mode,
    /// Which of the subjects it was for.
    pub number: usize,
    /// The fingerprint of the counter's key.
    pub fingerprint: u64,
    /// The first identifier of the key.
    pub subject: &'a [u8],
    /// The others.
    pub rest: &'a [u8],
}

/// A part of the text of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// Where a key stands in the text of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeySpans {
    pub(crate) subject: Span,
    pub(crate) rest: Span,
}

impl Span {
    /// Texts are far below 4 GiB; what is not is cut off.
    #[inline]
    pub(crate) fn new(range: Range<usize>) -> Self {
        let narrow = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: narrow(range.start), end: narrow(range.end) }
    }

    #[inline]
    pub(crate) fn of(self, text: &KeyText) -> &[u8] {
        text.as_slice().get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl Plan {
    /// Whether there is anything to charge.
    #[must_use]
    #[inline]
    pub fn is_to_be_counted(&self) -> bool {
        self.admission == Admission::Judge && !self.planned.is_empty()
    }

    /// Forgets the request. What has outgrown its place is given back.
    pub fn clear(&mut self) {
        self.admission = Admission::Judge;
        self.tier = None;
        self.text.clear();
        if self.planned.spilled() {
            self.planned = SmallVec::new();
        } else {
            self.planned.clear();
        }
    }

    /// A plan as it was made before, without exceptions for its client.
    #[must_use]
    pub fn restore<'a>(tier: Option<&str>, lines: impl IntoIterator<Item = Restored<'a>>) -> Self {
        let mut plan = Self::default();
        let span = |text: &mut KeyText, bytes: &[u8]| {
            let start = text.len();
            text.push(bytes);
            Span::new(start..text.len())
        };
        plan.tier = tier.map(|tier| span(&mut plan.text, tier.as_bytes()));
        for Restored { rule, cost, mode, number, fingerprint, subject, rest } in lines {
            let subject = span(&mut plan.text, subject);
            let key = KeySpans { subject, rest: span(&mut plan.text, rest) };
            plan.planned.push(Planned {
                rule,
                subject: number,
                own_limit: None,
                cost,
                mode,
                fingerprint,
                key,
            });
        }
        plan
    }

    /// Adds a line by hand: a rule, whatever its conditions, and the counter it is counted in.
    /// `number` is the subject it is for; no other line has this rule and this counter. Bans do
    /// not apply: it has no client.
    pub fn add(
        &mut self,
        rules: &RuleSet,
        (rule, own_limit): (usize, Option<&Limit>),
        counter: &[u8],
        (number, cost): (usize, u64),
        hasher: &impl BuildHasher,
    ) {
        let Some(found) = rules.get(rule) else { return };
        let start = self.text.len();
        self.text.push_value(counter);
        let end = self.text.len();
        let key = KeySpans { subject: Span::new(start..end), rest: Span::new(end..end) };
        let written = key.subject.of(&self.text);
        let key_of_rule = Key::of_digest(hasher, (&found.id, found.digest), written, &[]);
        let fingerprint = key_of_rule.in_group(found.group).fingerprint;
        let own_limit = own_limit.copied().map(Box::new);
        let mode = found.mode;
        let planned = Planned { rule, subject: number, own_limit, cost, mode, fingerprint, key };
        self.planned.push(planned);
    }

    /// Forgets the keys, which may be long, but not the tier. The plan cannot be charged or
    /// refunded any more.
    pub fn forget_keys(&mut self) {
        let tier = self.tier.map_or(0, |tier| tier.end as usize);
        self.text.truncate(tier);
        self.text.shrink();
    }

    /// About how many bytes it takes besides itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        size_of_val(self.planned.as_slice()) + self.text.len()
    }

    /// The lines, in the order of the rules.
    #[must_use]
    #[inline]
    pub fn planned(&self) -> &[Planned] {
        &self.planned
    }

    /// The tier of the request; of several subjects, that of the first.
    #[must_use]
    pub fn tier(&self) -> Option<&str> {
        std::str::from_utf8(self.tier?.of(&self.text)).ok()
    }

    /// The lines as charges with distinct keys. `rules` is the set the plan was made with.
    #[inline]
    pub fn charges<'a>(&'a self, rules: &'a RuleSet) -> impl Iterator<Item = Charge<'a>> {
        self.planned.iter().filter_map(|planned| self.charge_of(planned, rules))
    }

    /// The values that a key of a charge is made of: one for each identifier of its rule.
    pub fn key_values<'k>(key: &Key<'k>) -> impl Iterator<Item = &'k [u8]> {
        values_of(key.subject, key.rest)
    }

    /// One line as a charge; `None` if there is no such line, or `rules` is another set.
    #[must_use]
    pub fn charge<'a>(&'a self, line: usize, rules: &'a RuleSet) -> Option<Charge<'a>> {
        self.charge_of(self.planned.get(line)?, rules)
    }

    #[inline]
    fn charge_of<'a>(&'a self, planned: &'a Planned, rules: &'a RuleSet) -> Option<Charge<'a>> {
        let rule = rules.get(planned.rule)?;
        let key = Key {
            fingerprint: planned.fingerprint,
            rule: &rule.id,
            subject: planned.key.subject.of(&self.text),
            rest: planned.key.rest.of(&self.text),
            group: rule.group,
        };
        Some(Charge { key, limit: planned.limit(rule), cost: planned.cost, mode: planned.mode })
    }

    /// The line that counts on the very same counter, if there is one.
    pub(crate) fn line_of(
        &mut self,
        rule: usize,
        fingerprint: u64,
        key: KeySpans,
    ) -> Option<&mut Planned> {
        let text = &self.text;
        let is_same = |a: Span, b: Span| a.of(text) == b.of(text);
        self.planned.iter_mut().find(|line| {
            line.rule == rule
                && line.fingerprint == fingerprint
                && is_same(line.key.subject, key.subject)
                && is_same(line.key.rest, key.rest)
        })
    }
}
