//! Plays a trace on one counter of the library, as a store would keep it.

use tollgate_core::{Limit, Quota, Report, State, Timestamp};

use crate::draw::{Action, Clock, Trace};

pub(crate) struct Counter {
    pub(crate) limit: Limit,
    pub(crate) state: Option<State>,
    pub(crate) now: Timestamp,
    /// When it was charged for a request.
    pub(crate) admissions: Vec<Timestamp>,
}

impl Counter {
    pub(crate) fn new(trace: &Trace) -> Self {
        Self {
            limit: compiled(trace.quota),
            state: None,
            now: Timestamp::from_micros(trace.start),
            admissions: Vec::new(),
        }
    }

    pub(crate) fn turn(&mut self, clock: Clock) {
        let now = self.now.as_micros();
        self.now = Timestamp::from_micros(match clock {
            Clock::Forward(span) => now.saturating_add(span),
            Clock::Back(span) => now.saturating_sub(span),
        });
    }

    pub(crate) fn ask(&mut self, cost: u64) -> (bool, Report) {
        let Self { limit, state, now, admissions } = self;
        let admitted = limit.fits(state.as_ref(), *now, cost);
        if admitted && cost > 0 {
            limit.charge(state, *now, cost);
            admissions.push(*now);
        }
        (admitted, limit.report(state.as_ref(), *now, cost, admitted))
    }

    pub(crate) fn debit(&mut self, cost: u64) {
        self.limit.debit(&mut self.state, self.now, cost);
    }

    pub(crate) fn refund(
        &mut self,
        units: u64,
        charged_at: Option<Timestamp>,
        under: Option<Quota>,
    ) {
        let limit = under.map_or(self.limit, compiled);
        limit.refund(&mut self.state, self.now, units, charged_at);
    }

    /// When the request was charged that a refund is tied to.
    pub(crate) fn tied_to(&self, tied: Option<usize>) -> Option<Timestamp> {
        tied.and_then(|ago| self.admissions.iter().rev().nth(ago)).copied()
    }

    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Ask(cost) => {
                self.ask(cost);
            }
            Action::Debit(cost) => self.debit(cost),
            Action::Refund { units, tied, under } => {
                self.refund(units, self.tied_to(tied), under);
            }
            Action::Change(quota) => self.limit = compiled(quota),
        }
    }
}

pub(crate) fn compiled(quota: Quota) -> Limit {
    quota.compile().expect("a quota within bounds")
}
