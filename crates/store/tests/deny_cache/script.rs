//! Requests and results as text: what the store answered, and what the cache did.

use std::hash::{BuildHasherDefault, DefaultHasher};

use tollgate_core::{Algorithm, Charge, Key, Limit, Micros, Mode, Quota, Timestamp};
use tollgate_store::{
    DenyCache, Op, OpOutcome, Refund, SettleRequest, Settlement, Store, StoreError, StoreErrorKind,
};

use crate::remote_store::{RemoteStore, at_once};

/// Where windows of every usual length begin.
pub(crate) const MIDNIGHT: Timestamp = Timestamp::from_secs(1_700_006_400);

/// A cache in front of a store across a network, which takes one step after the other.
pub(crate) struct Script {
    pub(crate) cache: DenyCache<RemoteStore>,
    limits: Vec<(&'static str, Limit)>,
}

/// Takes the steps and compares what is answered to each.
pub(crate) fn check(steps: &[(&str, &str)]) {
    let mut script = Script::new();
    for (number, (step, expected)) in steps.iter().enumerate() {
        assert_eq!(script.step(step), *expected, "step {number} of {steps:?}");
    }
    let times = |word: &str| -> u64 {
        steps.iter().map(|(_, answer)| answer.matches(word).count() as u64).sum()
    };
    assert_eq!(script.cache.hits(), times("known: "), "hits of {steps:?}");
    assert!(script.cache.inner().requests() >= times("asked: "), "requests of {steps:?}");
}

impl Script {
    pub(crate) fn new() -> Self {
        let limit = |algorithm, limit, secs| {
            Quota::new(algorithm, limit, Micros::from_secs(secs)).compile().expect("a valid quota")
        };
        let limits = vec![
            ("slow", limit(Algorithm::FixedWindow, 10, 60)),
            ("slow'", limit(Algorithm::FixedWindow, 20, 60)),
            ("other", limit(Algorithm::FixedWindow, 10, 60)),
            ("fast", limit(Algorithm::Gcra, 10, 1)),
            ("blocked", limit(Algorithm::FixedWindow, 0, 60)),
        ];
        Self { cache: DenyCache::new(RemoteStore::new(Micros::ZERO)), limits }
    }

    /// Takes one step and returns its result.
    ///
    /// A step is a time in microseconds after midnight and a request: `1500 slow=2 fast=1`. A charge
    /// is a counter, its mode (`=` enforced, `~` shadow, `!` debit) and a cost; `slow'` is the
    /// counter `slow` under a higher limit. Several requests, parted by `|`, are a batch. A time may
    /// also be followed by `try` and charges (a dry run), `refund` and charges, or `reset` and counters. Between two steps the
    /// store may go `down`, hang until the `timeout`, and come `up` again.
    pub(crate) fn step(&mut self, step: &str) -> String {
        let fault = match step {
            "up" => None,
            "down" => Some(StoreErrorKind::Unavailable),
            "timeout" => Some(StoreErrorKind::Timeout),
            _ => return self.ask(step),
        };
        self.cache.inner().set_fault(fault);
        String::new()
    }

    fn ask(&self, step: &str) -> String {
        let (time, rest) = step.split_once(' ').expect("a time");
        let now = MIDNIGHT.plus(Micros::new(time.parse().expect("microseconds")));
        if let Some(charges) = rest.strip_prefix("refund ") {
            let refunds: Vec<Refund<'_>> = self.charges(charges).iter().map(refund).collect();
            return done(at_once(self.cache.refund(&refunds, now)));
        }
        if let Some(counters) = rest.strip_prefix("reset ") {
            let keys: Vec<Key<'_>> = counters.split_whitespace().map(key).collect();
            return done(at_once(self.cache.reset(&keys)));
        }
        let is_dry_run = rest.starts_with("try ");
        let rest = rest.trim_start_matches("try ");
        let requests: Vec<Vec<Charge<'_>>> =
            rest.split('|').map(|charges| self.charges(charges)).collect();
        let settled = match &requests[..] {
            [charges] if is_dry_run => {
                let request = SettleRequest { charges, idempotency: None, is_dry_run };
                let outcome = at_once(self.cache.submit_one(Op::Settle(request), now));
                vec![outcome.and_then(OpOutcome::settled)]
            }
            [charges] => vec![at_once(self.cache.settle(charges, now))],
            _ => {
                let requests: Vec<&[Charge<'_>]> = requests.iter().map(Vec::as_slice).collect();
                at_once(self.cache.settle_batch(&requests, now))
            }
        };
        assert_eq!(settled.len(), requests.len(), "{step}");
        let answers: Vec<String> = requests
            .iter()
            .zip(settled)
            .map(|(charges, settled)| render(charges, settled))
            .collect();
        answers.join("; ")
    }

    pub(crate) fn charges<'a>(&'a self, text: &'a str) -> Vec<Charge<'a>> {
        text.split_whitespace().map(|charge| self.charge(charge)).collect()
    }

    fn charge<'a>(&'a self, text: &'a str) -> Charge<'a> {
        let at = text.find(['=', '~', '!']).expect("a mode");
        let mode = match &text[at..=at] {
            "=" => Mode::Enforce,
            "~" => Mode::Shadow,
            _ => Mode::Debit,
        };
        let name = &text[..at];
        let (_, limit) = self.limits.iter().find(|(of, _)| *of == name).expect("a limit");
        Charge { key: key(name), limit, cost: text[at + 1..].parse().expect("a cost"), mode }
    }
}

fn key(name: &str) -> Key<'_> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    Key::new(&hasher, name.trim_end_matches('\''), b"subject", b"")
}

pub(crate) fn refund<'a>(charge: &Charge<'a>) -> Refund<'a> {
    Refund { key: charge.key, limit: charge.limit, units: charge.cost, charged_at: None }
}

fn done(done: Result<(), StoreError>) -> String {
    done.map_or_else(|error| error.kind().to_string(), |()| "done".to_owned())
}

/// `asked: passed, 3 left` with what is left of each counter, or `known: slow, 500 us` with the rule
/// that refused and its wait.
pub(crate) fn render(charges: &[Charge<'_>], settled: Result<Settlement, StoreError>) -> String {
    let Settlement { passed, results, only, .. } = match settled {
        Ok(settled) => settled,
        Err(error) => return error.kind().to_string(),
    };
    let Some(only) = only else {
        assert_eq!(results.len(), charges.len());
        let left = results.iter().map(|line| format!(", {} left", line.report.remaining));
        let verdict = if passed { "passed" } else { "refused" };
        return format!("asked: {verdict}{}", left.collect::<String>());
    };
    assert!(!passed && results.len() == 1 && !results[0].admitted && !results[0].written);
    let wait = results[0].report.retry_after;
    let wait = wait.map_or_else(|| "never".to_owned(), |wait| format!("{wait:?}"));
    format!("known: {}, {wait}", charges[only].key.rule)
}
