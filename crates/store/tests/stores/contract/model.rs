//! The store to measure stores by: a map of states, and `tollgate_core` on top of it.

use std::collections::HashMap;

use tollgate_core::{
    Algorithm, Charge, ChargeResult, Key, Limit, Micros, Mode, Quota, State, Timestamp, settle,
};

/// How long a store keeps an expired counter at least.
const SLACK: Micros = Micros::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Model {
    counters: HashMap<usize, Counter>,
}

#[derive(Debug)]
struct Counter {
    state: State,
    /// The limit it was last charged in.
    limit: Limit,
}

impl Model {
    /// Settles charges that belong to the counters of these numbers.
    pub(crate) fn settle(
        &mut self,
        numbers: &[usize],
        charges: &[Charge<'_>],
        is_dry_run: bool,
        now: Timestamp,
    ) -> (bool, Vec<ChargeResult>) {
        let mut states: Vec<Option<State>> =
            numbers.iter().map(|number| self.state(*number).cloned()).collect();
        let mut results = vec![ChargeResult::default(); charges.len()];
        let passed = if is_dry_run {
            // As beside a charge that never fits.
            let blocked = Quota::new(Algorithm::FixedWindow, 0, Micros::from_secs(1));
            let blocked = blocked.compile().expect("a valid quota");
            let key = Key { fingerprint: 0, rule: "", subject: b"", rest: b"", group: 0 };
            let never = Charge { key, limit: &blocked, cost: 1, mode: Mode::Enforce };
            let never = [charges, &[never]].concat();
            states.push(None);
            results.push(ChargeResult::default());
            settle(&never, &mut states, now, &mut results);
            results.pop();
            let fits = |(charge, line): (&Charge<'_>, &ChargeResult)| {
                line.admitted || charge.mode != Mode::Enforce
            };
            charges.iter().zip(&results).all(fits)
        } else {
            settle(charges, &mut states, now, &mut results)
        };
        for (number, (state, (charge, line))) in
            numbers.iter().zip(states.into_iter().zip(charges.iter().zip(&results)))
        {
            if let Some(state) = state.filter(|_| line.written) {
                self.counters.insert(*number, Counter { state, limit: *charge.limit });
            }
        }
        (passed, results)
    }

    pub(crate) fn refund(
        &mut self,
        number: usize,
        limit: &Limit,
        now: Timestamp,
        units: u64,
        charged_at: Option<Timestamp>,
    ) {
        if let Some(Counter { state, limit: charged_in }) = self.counters.remove(&number) {
            let mut state = Some(state);
            limit.refund(&mut state, now, units, charged_at);
            let counter = state.map(|state| Counter { state, limit: charged_in });
            self.counters.extend(counter.map(|counter| (number, counter)));
        }
    }

    pub(crate) fn reset(&mut self, number: usize) {
        self.counters.remove(&number);
    }

    pub(crate) fn limit(&self, number: usize) -> Option<&Limit> {
        self.counters.get(&number).map(|counter| &counter.limit)
    }

    pub(crate) fn text(&self, number: usize) -> Option<String> {
        self.state(number).map(State::to_string)
    }

    /// Forgets a counter that a store may have forgotten: one that expired a while ago. Says whether it
    /// was.
    pub(crate) fn expire(&mut self, number: usize, now: Timestamp) -> bool {
        let expired = self
            .counters
            .get(&number)
            .is_some_and(|counter| counter.limit.is_idle(&counter.state, now.minus(SLACK)));
        if expired {
            self.reset(number);
        }
        expired
    }

    fn state(&self, number: usize) -> Option<&State> {
        self.counters.get(&number).map(|counter| &counter.state)
    }
}
