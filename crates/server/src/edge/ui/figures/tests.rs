//! Rates, shares and steps of charts, from points of the history.

use super::*;
use tollgate::Timestamp;
use tollgate_dashboard::model::RangeChoice;

fn point(second: u64, allowed: u64, refused: u64) -> HistoryPoint {
    let requests = RequestFigures { allowed, refused, ..RequestFigures::default() };
    HistoryPoint { at: Timestamp::from_secs(second), requests, ..HistoryPoint::default() }
}

fn range(from: u64, until: u64) -> Range {
    let choice = RangeChoice::Custom;
    Range { choice, from: Time::from_secs(from), until: Time::from_secs(until) }
}

#[test]
fn counts_become_rates_and_the_time_before_the_start_is_empty() {
    let points = vec![point(1_040, 20, 0), point(1_050, 10, 30)];
    let step = Micros::from_secs(10);
    let figures = HistoryFigures { step, points, revisions: Vec::new() };
    let figures = NodeFigures::new(figures, &range(1_000, 1_060));
    let course = figures.course();
    assert_eq!((course.start, course.step_seconds), (Time::from_secs(1_000), 10));
    assert_eq!(course.allowed, [None, None, None, None, Some(2.0), Some(1.0)]);
    assert_eq!(course.refused, [None, None, None, None, Some(0.0), Some(3.0)]);
    assert_eq!(vec![figures.requests().value, figures.refused_share().value], [4.0, 0.5]);
    assert_eq!(figures.refused_share().course, [0.0, 0.75]);
}

/// Constant traffic looked as if it had just ended: the last step had a part of its requests.
#[test]
fn a_step_that_is_not_over_is_left_out() {
    let course = |from: u64, first: u64, last: u64| {
        let points = (first..=last).map(|second| point(second, 7, 0)).collect();
        let step = Micros::from_secs(1);
        let figures = HistoryFigures { step, points, revisions: Vec::new() };
        NodeFigures::new(figures, &range(from, from + 3_600)).course()
    };
    // An hour by the second: 13 of them are a step.
    for last in 12_000..12_030 {
        let whole = course(9_000, 11_000, last);
        let rates: Vec<f64> = whole.allowed.iter().flatten().copied().collect();
        let (begin, rest) = rates.split_first().expect("steps");
        assert_eq!(rest, vec![7.0; rest.len()], "until {last}");
        assert!(*begin > 0.0 && *begin <= 7.0, "the server started within it: {begin}");
        let end = whole.start.as_secs() + whole.step_seconds * whole.allowed.len() as u64;
        assert!(end <= last + 1 && end + whole.step_seconds > last + 1, "{end}, not {last}");
    }
    // A step of which the range has a part is left out too.
    let cut = course(9_001, 9_001, 12_600);
    assert!(cut.allowed.iter().all(|rate| *rate == Some(7.0)), "{:?}", cut.allowed);
}

#[test]
fn long_ranges_have_bounded_points() {
    let points = (0..3_600).map(|second| point(9_000 + second, 7, 0)).collect();
    let figures = HistoryFigures { step: Micros::from_secs(1), points, revisions: Vec::new() };
    let figures = NodeFigures::new(figures, &range(9_000, 12_600));
    let course = figures.course();
    assert_eq!((course.allowed.len(), course.step_seconds), (240, 15));
    assert!(course.allowed.iter().all(|rate| *rate == Some(7.0)));
    assert!(figures.requests().course.len() <= MAX_COURSE);
}

#[test]
fn rules_are_added_up_by_time() {
    let history = |from: u64, allowed: &[u64]| RuleHistory {
        rule_id: Arc::from("a"),
        step: Micros::from_secs(10),
        from: Timestamp::from_secs(from),
        points: allowed
            .iter()
            .map(|allowed| RuleFigures { allowed: *allowed, ..RuleFigures::default() })
            .collect(),
    };
    let (one, other) = (history(1_000, &[10, 10, 10]), history(1_010, &[10, 20]));
    let course = rules_figures([&one, &other], &range(1_000, 1_030)).course();
    assert_eq!(course.allowed, [Some(1.0), Some(2.0), Some(3.0)]);
    assert!(rules_figures([], &range(0, 10)).is_empty());
}
