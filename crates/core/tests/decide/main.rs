//! Which rule binds a request, and how long the request is delayed.

use proptest::prelude::*;
use tollgate_core::{Micros, Mode, Outcome, Report, Verdict, decide};

/// An outcome that was admitted with so much left of so much.
fn left(remaining: u64, limit: u64) -> Outcome {
    Outcome {
        rule: 0,
        mode: Mode::Enforce,
        admitted: true,
        limit,
        window: Micros::from_secs(1),
        cost: 1,
        report: Report { remaining, retry_after: Some(Micros::ZERO), ..Report::default() },
        surplus: 0,
    }
}

/// An outcome that was refused for so many microseconds; `None` is for ever.
fn refused(retry_after: Option<u64>) -> Outcome {
    let report = Report { retry_after: retry_after.map(Micros::new), ..Report::default() };
    Outcome { admitted: false, report, ..left(0, 10) }
}

fn shadow(outcome: Outcome) -> Outcome {
    Outcome { mode: Mode::Shadow, ..outcome }
}

fn debit(outcome: Outcome) -> Outcome {
    Outcome { mode: Mode::Debit, ..outcome }
}

fn delayed(delay: u64, outcome: Outcome) -> Outcome {
    let report = Report { delay: Some(Micros::new(delay)), ..outcome.report };
    Outcome { report, ..outcome }
}

fn check(outcomes: &[Outcome], admitted: bool, binding: Option<usize>, delay: Option<u64>) {
    let expected = Verdict { admitted, binding, delay: delay.map(Micros::new) };
    assert_eq!(decide(outcomes.iter().map(Outcome::vote)), expected, "{outcomes:#?}");
}

#[test]
fn the_binding_rule() {
    // No outcome binds.
    check(&[], true, None, None);
    check(&[shadow(left(0, 10))], true, None, None);
    check(&[shadow(refused(None))], true, None, None);

    // Refused: the longest wait, never being the longest, the first of equals.
    check(&[refused(Some(5))], false, Some(0), None);
    check(&[refused(Some(5)), refused(Some(6))], false, Some(1), None);
    check(&[refused(Some(6)), refused(Some(5))], false, Some(0), None);
    check(&[refused(Some(6)), refused(Some(6))], false, Some(0), None);
    check(&[refused(Some(u64::MAX)), refused(None)], false, Some(1), None);
    check(&[refused(None), refused(Some(u64::MAX))], false, Some(0), None);
    check(&[refused(None), refused(None)], false, Some(0), None);
    check(&[left(0, 10), refused(Some(1)), left(0, 10)], false, Some(1), None);
    check(&[shadow(refused(None)), refused(Some(1))], false, Some(1), None);

    // Admitted: the least left of its limit, the first of equals.
    check(&[left(9, 10), left(80, 100)], true, Some(1), None);
    check(&[left(80, 100), left(9, 10)], true, Some(0), None);
    check(&[left(1, 10), left(10, 100), left(100, 1_000)], true, Some(0), None);
    check(&[left(1, 3), left(333, 1_000)], true, Some(1), None);
    check(&[left(1, 3), left(334, 1_000)], true, Some(0), None);
    check(&[left(0, 10), left(0, 1)], true, Some(0), None);
    check(&[left(5, 10), left(0, 0)], true, Some(1), None);
    check(&[left(u64::MAX - 1, u64::MAX), left(u64::MAX, u64::MAX)], true, Some(0), None);
    check(&[left(u64::MAX, u64::MAX), left(u64::MAX - 1, u64::MAX)], true, Some(1), None);
    check(&[left(5, 10), shadow(left(0, 10))], true, Some(0), None);
    check(&[left(5, 10), debit(left(0, 10))], true, Some(1), None);
}

#[test]
fn the_longest_delay_applies_to_the_request() {
    check(&[delayed(0, left(5, 10))], true, Some(0), Some(0));
    check(&[delayed(7, left(5, 10)), left(1, 10)], true, Some(1), Some(7));
    check(&[delayed(7, left(5, 10)), delayed(9, left(6, 10))], true, Some(0), Some(9));
    check(&[delayed(7, left(5, 10)), shadow(delayed(9, left(6, 10)))], true, Some(0), Some(7));
    check(&[delayed(7, left(5, 10)), refused(Some(1))], false, Some(1), None);
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let mode = prop::sample::select(vec![Mode::Enforce, Mode::Shadow, Mode::Debit]);
    let limit = prop_oneof![0..4_u64, any::<u64>()];
    (mode, any::<bool>(), limit, 0..=1_000_u64, prop::option::of(0..3_u64)).prop_map(
        |(mode, admitted, limit, share, wait)| {
            let remaining = u128::from(limit) * u128::from(share) / 1_000;
            let remaining = u64::try_from(remaining).expect("a share of the limit");
            let outcome = if admitted { left(remaining, limit) } else { refused(wait) };
            Outcome { mode, ..outcome }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// No other outcome is stricter than the binding one.
    #[test]
    fn the_binding_rule_is_the_strictest(outcomes in prop::collection::vec(outcome(), 0..6)) {
        let judgement = decide(outcomes.iter().map(Outcome::vote));
        let voices = || outcomes.iter().enumerate().filter(|(_, it)| it.mode != Mode::Shadow);
        prop_assert_eq!(judgement.admitted, voices().all(|(_, it)| it.admitted));
        prop_assert_eq!(judgement.binding.is_some(), voices().count() > 0);
        for (index, other) in voices() {
            let binding = judgement.binding.expect("a binding outcome");
            let speaker = &outcomes[binding];
            prop_assert!(speaker.mode != Mode::Shadow);
            prop_assert_eq!(speaker.admitted, judgement.admitted);
            let first = binding <= index;
            if judgement.admitted {
                // remaining/limit, exactly.
                let share = |it: &Outcome, of: &Outcome| {
                    u128::from(it.report.remaining) * u128::from(of.limit.max(1))
                };
                let (mine, its) = (share(speaker, other), share(other, speaker));
                prop_assert!(mine < its || (mine == its && first));
            } else if !other.admitted {
                let wait = |it: &Outcome| it.report.retry_after.map_or(u128::MAX, |it| it.get().into());
                prop_assert!(wait(speaker) > wait(other) || (wait(speaker) == wait(other) && first));
            }
        }
    }
}
