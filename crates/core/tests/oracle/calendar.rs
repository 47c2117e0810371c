//! Windows of the calendar against a model that keeps the boundaries as a list and searches it from the start.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_core::{
    Algorithm, Calendar, CalendarUnit, Limit, Micros, PackedState, Quota, QuotaError, State,
    Timestamp,
};

use crate::draw::config;

const HOUR: u64 = 3_600_000_000;

/// A calendar that tests share forever, as policies do.
fn calendar(zone: &str, starts: &[u64]) -> &'static Calendar {
    let starts = starts.iter().copied().map(Timestamp::from_micros);
    Box::leak(Box::new(Calendar::new(CalendarUnit::Day, zone, starts).expect("two boundaries")))
}

struct Model {
    starts: Vec<u64>,
    limit: u64,
    grace: u64,
    /// Effective time: it never goes back.
    mark: u64,
    /// Where the window of the count is in the list, and the count.
    counted: Option<(usize, u64)>,
}

impl Model {
    fn window(&self, at: u64) -> usize {
        let mut place = 0;
        while place + 1 < self.starts.len() && self.starts[place + 1] <= at {
            place += 1;
        }
        place
    }

    fn end(&self, place: usize) -> u64 {
        self.starts[place + 1]
    }

    fn advance(&self, now: u64) -> (u64, usize, u64) {
        let at = self.mark.max(now);
        let place = self.window(at);
        let used = self.counted.filter(|(counted, _)| *counted == place).map_or(0, |(_, n)| n);
        (at, place, used)
    }

    fn ask(&mut self, now: u64, cost: u64) -> (bool, [Option<u64>; 4]) {
        let (at, place, used) = self.advance(now);
        let admitted = used + cost <= self.limit + self.grace || cost == 0;
        let used = if admitted { used + cost } else { used };
        if admitted && cost > 0 {
            (self.mark, self.counted) = (at, Some((place, used)));
        }
        let left = self.end(place) - now;
        let retry =
            if admitted { Some(0) } else { (cost <= self.limit + self.grace).then_some(left) };
        let reset = if used > 0 { left } else { 0 };
        let remaining = self.limit.saturating_sub(used);
        (admitted, [Some(remaining), retry, Some(reset), (used > 0).then_some(left)])
    }

    fn debit(&mut self, now: u64, cost: u64) {
        let (at, place, used) = self.advance(now);
        if cost > 0 {
            let count = (used + cost).min(2 * self.limit).max(used);
            (self.mark, self.counted) = (at, Some((place, count)));
        }
    }

    fn refund(&mut self, now: u64, units: u64, charged_at: Option<u64>) {
        let (at, place, used) = self.advance(now);
        if self.counted.is_none() || units == 0 {
            return;
        }
        let fits = charged_at.is_none_or(|charged| self.window(charged) == place);
        let units = if fits { units } else { 0 };
        (self.mark, self.counted) = (at, Some((place, used.saturating_sub(units))));
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Ask(u64),
    Debit(u64),
    Refund(u64, Option<usize>),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (0..=4_u64).prop_map(Act::Ask),
        1 => (0..=4_u64).prop_map(Act::Debit),
        2 => (0..=4_u64, prop::option::of(0..5_usize)).prop_map(|(n, tied)| Act::Refund(n, tied)),
    ]
}

proptest! {
    #![proptest_config(config(600))]

    /// Windows of any lengths, a clock that steps back, refunds tied to earlier windows: the kernels agree with the
    /// model, as a state, as its text and in sixteen bytes.
    #[test]
    fn calendar_windows_count_as_the_model_does(
        lengths in vec(prop_oneof![Just(24 * HOUR), Just(23 * HOUR), Just(25 * HOUR), 1..=30 * HOUR], 150),
        limit in 1..=12_u64,
        grace in 0..=2_u64,
        steps in vec((-9_i64..=40, act()), 1..80),
    ) {
        let mut starts = vec![0];
        for length in &lengths {
            starts.push(starts.last().expect("never empty") + length);
        }
        let quota = Quota { grace, ..Quota::per_calendar_window(limit, calendar("Test/Zone", &starts)) };
        let quota = quota.compile().expect("a valid quota");
        let mut model = Model { starts, limit, grace, mark: 0, counted: None };
        let mut state: Option<State> = None;
        let mut now = 0_u64;
        let mut times = Vec::new();
        for (hours, act) in steps {
            now = now.saturating_add_signed(hours * HOUR as i64 / 3);
            if now >= model.starts[100] {
                break;
            }
            times.push(now);
            let at = Timestamp::from_micros(now);
            match act {
                Act::Ask(cost) => {
                    let (admitted, figures) = model.ask(now, cost);
                    prop_assert_eq!(quota.fits(state.as_ref(), at, cost), admitted);
                    if admitted {
                        quota.charge(&mut state, at, cost);
                    }
                    let report = quota.report(state.as_ref(), at, cost, admitted);
                    let found = [
                        Some(report.remaining),
                        report.retry_after.map(Micros::get),
                        Some(report.reset_after.get()),
                        report.next_after.map(Micros::get),
                    ];
                    prop_assert_eq!(found, figures, "at {} with {:?}", now, state);
                }
                Act::Debit(cost) => {
                    model.debit(now, cost);
                    quota.debit(&mut state, at, cost);
                }
                Act::Refund(units, tied) => {
                    let charged = tied.and_then(|ago| times.get(times.len().checked_sub(ago + 1)?)).copied();
                    model.refund(now, units, charged);
                    quota.refund(&mut state, at, units, charged.map(Timestamp::from_micros));
                }
            }
            if let Some(kept) = &state {
                let text = kept.to_string();
                prop_assert_eq!(text.parse(), Ok(kept.clone()), "{}", text);
                let packed = PackedState::pack(kept, &quota).expect("a count of 64 bits");
                prop_assert_eq!(packed.unpack(&quota), state.clone());
            }
        }
    }
}

fn windows(of: &Calendar, at: u64) -> (u64, u64) {
    let (start, end) = of.window_at(Timestamp::from_micros(at));
    (start.as_micros(), end.as_micros())
}

#[test]
fn a_calendar_answers_for_any_time() {
    let calendar = calendar("Test/Any", &[0, 100, 200, 290, 290, 250, 300, 410]);
    for (at, expected) in [
        (0, (0, 100)),
        (99, (0, 100)),
        (100, (100, 200)),
        (289, (200, 290)),
        (290, (290, 300)),
        (300, (300, 410)),
        (410, (410, 520)),
        (519, (410, 520)),
        (520, (520, 630)),
    ] {
        assert_eq!(windows(calendar, at), expected, "at {at}");
    }
    let (_, end) = windows(calendar, u64::MAX);
    assert_eq!(end, u64::MAX);
}

#[test]
fn a_calendar_without_a_window_is_none() {
    for starts in [&[][..], &[0], &[0, 0]] {
        let starts = starts.iter().copied().map(Timestamp::from_micros);
        assert!(Calendar::new(CalendarUnit::Day, "Test/None", starts).is_none());
    }
}

fn compile(quota: Quota) -> Result<Limit, QuotaError> {
    quota.compile()
}

#[test]
fn only_fixed_windows_follow_a_calendar() {
    let calendar = calendar("Test/Only", &[0, 100]);
    let quota = Quota::per_calendar_window(5, calendar);
    assert_eq!(compile(quota).map(|limit| limit.calendar()), Ok(Some(calendar)));
    for algorithm in Algorithm::ALL.into_iter().filter(|one| *one != Algorithm::FixedWindow) {
        let refused = compile(Quota { algorithm, ..quota });
        assert_eq!(refused, Err(QuotaError::CalendarWithoutFixedWindow), "{algorithm}");
    }
    let refused = compile(Quota { window: Micros::from_secs(7), ..quota });
    assert_eq!(refused, Err(QuotaError::WindowNotOfCalendar));
}

/// Another calendar, or none, is another way to count: the state is fresh. Another limit is not.
#[test]
fn a_state_belongs_to_its_calendar() {
    let starts = [0, 24 * HOUR, 48 * HOUR];
    let of = |limit, zone| {
        compile(Quota::per_calendar_window(limit, calendar(zone, &starts))).expect("valid")
    };
    let at = Timestamp::from_micros(HOUR);
    let (limit, mut state) = (of(5, "Test/A"), None);
    limit.charge(&mut state, at, 3);
    let left = |limit: &Limit| limit.report(state.as_ref(), at, 0, true).remaining;
    assert_eq!(left(&limit), 2);
    assert_eq!(left(&of(4, "Test/A")), 1);
    assert_eq!(left(&of(5, "Test/B")), 5);
    let plain = Quota::new(Algorithm::FixedWindow, 5, Micros::new(24 * HOUR));
    assert_eq!(left(&compile(plain).expect("valid")), 5);
    assert_ne!(limit.digest(), compile(plain).expect("valid").digest());
    assert_ne!(limit, of(5, "Test/B"));
    let text = state.as_ref().map(State::to_string).unwrap_or_default();
    let id = calendar("Test/A", &starts).id();
    assert_eq!(text, format!("f:{}:{HOUR}:3:{id}", 24 * HOUR));
    assert!(format!("f:{}:{HOUR}:3:0", 24 * HOUR).parse::<State>().is_err());
}

#[test]
fn a_node_alone_keeps_the_calendar() {
    let calendar = calendar("Test/Alone", &[0, 100, 250]);
    let limit = compile(Quota::per_calendar_window(5, calendar)).expect("valid").scaled(2);
    assert_eq!((limit.capacity(), limit.calendar()), (10, Some(calendar)));
    assert_eq!(limit.refill_time_at(Timestamp::from_micros(120)), Micros::new(150));
}
