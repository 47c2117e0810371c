//! Figures over time as charts show them: rates instead of counts, and no more points than fit.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate::Micros;
use tollgate_dashboard::model::{Figure, LatencySeries, Range, RequestSeries, RevisionMark, Time};

use super::convert::time;
use super::range::reach;
use super::visit::Visit;
use crate::observe::history::{
    HistoryFigures, HistoryPoint, Quantiles, RequestFigures, RuleFigures, RuleHistory,
};

/// The most points of a chart.
const MAX_POINTS: usize = 240;
/// The most points of a sparkline.
const MAX_COURSE: usize = 48;

/// The figures of this node over a range.
#[derive(Debug, Default)]
pub(super) struct NodeFigures {
    points: Vec<HistoryPoint>,
    step: Micros,
    revisions: Vec<RevisionMark>,
    from: Time,
}

impl Visit {
    /// The figures of this node over the range of the page.
    pub(super) fn node_figures(&self) -> NodeFigures {
        let (now, range) = (self.now(), self.range());
        NodeFigures::new(self.ui.app.history.figures(now, reach(&range, now)), &range)
    }

    /// The decisions of rules over the range of the page, of those that had any.
    pub(super) fn rule_figures(
        &self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> HashMap<Arc<str>, RuleHistory> {
        let (now, range) = (self.now(), self.range());
        let found = self.ui.app.history.rules(now, reach(&range, now), is_wanted);
        let until = range.until;
        let cut = |mut history: RuleHistory| {
            let step = history.step.get();
            let kept = (until.as_millis() * 1_000).saturating_sub(history.from.as_micros());
            history.points.truncate(usize::try_from(kept.div_ceil(step.max(1))).unwrap_or(0));
            (Arc::clone(&history.rule_id), history)
        };
        found.into_iter().map(cut).collect()
    }
}

impl NodeFigures {
    fn new(figures: HistoryFigures, range: &Range) -> Self {
        let HistoryFigures { step, mut points, revisions } = figures;
        points.retain(|point| (range.from..range.until).contains(&time(point.at)));
        let marks = revisions.into_iter().filter(|mark| {
            let at = time(mark.at);
            range.from < at && at <= range.until
        });
        let marks = marks.map(|mark| RevisionMark {
            at: time(mark.at),
            revision: mark.revision,
            what: format!("{} rules", mark.rules),
        });
        Self { points, step, revisions: marks.collect(), from: range.from }
    }

    /// Whether no request was checked in the range.
    pub(super) fn is_empty(&self) -> bool {
        self.points.iter().all(|point| all(&point.requests) == 0)
    }

    /// Requests per second, now and over the range.
    pub(super) fn requests(&self) -> Figure {
        self.rate(all)
    }

    /// Requests per second that were decided without the shared store.
    pub(super) fn without_store(&self) -> Figure {
        self.rate(|requests| requests.degraded)
    }

    fn rate(&self, count: impl Fn(&RequestFigures) -> u64) -> Figure {
        let seconds = seconds(self.step);
        let rates: Vec<f64> =
            self.points.iter().map(|point| count(&point.requests) as f64 / seconds).collect();
        let course = averages(&rates, MAX_COURSE);
        Figure { value: rates.last().copied().unwrap_or(0.0), course }
    }

    /// The share of requests that did not pass, over the range.
    pub(super) fn refused_share(&self) -> Figure {
        let pairs: Vec<(u64, u64)> =
            self.points.iter().map(|it| (refused(&it.requests), all(&it.requests))).collect();
        share(&pairs)
    }

    /// The 99th percentile of checks in milliseconds.
    pub(super) fn check_p99_ms(&self) -> Figure {
        let values: Vec<f64> = self.points.iter().filter_map(|it| it.check.p99).collect();
        let millis: Vec<f64> = values.iter().map(|seconds| seconds * 1e3).collect();
        let value = millis.last().copied().unwrap_or(0.0);
        Figure { value, course: averages(&millis, MAX_COURSE) }
    }

    /// Requests per second by outcome.
    pub(super) fn course(&self) -> RequestSeries {
        let (start, step, missing, size) = self.grid();
        let per_second = seconds(self.step) * size as f64;
        let sums = |count: fn(&RequestFigures) -> u64| {
            let before = std::iter::repeat_n(None, missing);
            let chunks = self.points.chunks(size).map(|chunk| {
                let count: u64 = chunk.iter().map(|point| count(&point.requests)).sum();
                Some(count as f64 / per_second)
            });
            before.chain(chunks).collect()
        };
        RequestSeries {
            start,
            step_seconds: step,
            allowed: sums(|requests| requests.allowed + requests.unlimited),
            throttled: sums(|requests| requests.throttled),
            refused: sums(refused),
            notes: Vec::new(),
            marks: self.revisions.clone(),
        }
    }

    /// How long checks took.
    pub(super) fn check_latency(&self) -> LatencySeries {
        self.latency(|point| point.check)
    }

    /// How long the store took.
    pub(super) fn store_latency(&self) -> LatencySeries {
        self.latency(|point| point.store)
    }

    fn latency(&self, of: impl Fn(&HistoryPoint) -> Quantiles) -> LatencySeries {
        let (start, step_seconds, missing, size) = self.grid();
        let series = |quantile: fn(&Quantiles) -> Option<f64>| {
            let before = std::iter::repeat_n(None, missing);
            let chunks = self.points.chunks(size).map(|chunk| {
                let values = chunk.iter().filter_map(|point| quantile(&of(point)));
                values.reduce(f64::max).map(|seconds| seconds * 1e3)
            });
            before.chain(chunks).collect()
        };
        LatencySeries {
            start,
            step_seconds,
            p50: series(|it| it.p50),
            p95: series(|it| it.p95),
            p99: series(|it| it.p99),
        }
    }

    /// The first point and the step of a chart, how many of its points are before there are figures, and how many
    /// points of the history make one of it.
    fn grid(&self) -> (Time, u64, usize, usize) {
        let step_ms = (self.step.get() / 1_000).max(1_000);
        let first = self.points.first().map_or(self.from, |point| time(point.at));
        let missing = first.since(self.from) / step_ms;
        let in_all = usize::try_from(missing).unwrap_or(0) + self.points.len();
        let size = in_all.div_ceil(MAX_POINTS).max(1);
        let size_ms = step_ms * size as u64;
        let missing = first.since(self.from) / size_ms;
        let start = Time::from_millis(first.as_millis().saturating_sub(missing * size_ms));
        (start, size_ms / 1_000, usize::try_from(missing).unwrap_or(0), size)
    }
}

/// Requests per second of one rule, and the share that it refused; of a shadow rule, that it would have refused.
pub(super) fn rule_row_figures(history: Option<&RuleHistory>) -> (Figure, Figure, u64) {
    let Some(history) = history else { return (Figure::default(), Figure::default(), 0) };
    let seconds = seconds(history.step);
    let turned_away = |it: &RuleFigures| it.refused + it.would_refuse;
    let rates: Vec<f64> =
        history.points.iter().map(|it| (it.allowed + turned_away(it)) as f64 / seconds).collect();
    let requests = Figure {
        value: rates.last().copied().unwrap_or(0.0),
        course: averages(&rates, MAX_COURSE),
    };
    let pairs: Vec<(u64, u64)> =
        history.points.iter().map(|it| (turned_away(it), it.allowed + turned_away(it))).collect();
    let refused = history.points.iter().map(turned_away).sum();
    (requests, share(&pairs), refused)
}

/// The figures of some rules together, as those of a node.
pub(super) fn rules_figures<'a>(
    histories: impl IntoIterator<Item = &'a RuleHistory>,
    range: &Range,
) -> NodeFigures {
    let mut summed: Option<RuleHistory> = None;
    for history in histories {
        match &mut summed {
            None => summed = Some(history.clone()),
            Some(sum) => add(sum, history),
        }
    }
    let figures = summed.map_or_else(HistoryFigures::default, |sum| HistoryFigures {
        step: sum.step,
        points: points_of(&sum),
        revisions: Vec::new(),
    });
    NodeFigures::new(figures, range)
}

fn points_of(history: &RuleHistory) -> Vec<HistoryPoint> {
    let point = |(at, figures): (usize, &RuleFigures)| HistoryPoint {
        at: history.from.plus(Micros::new(history.step.get().saturating_mul(at as u64))),
        requests: RequestFigures {
            allowed: figures.allowed + figures.would_refuse,
            refused: figures.refused,
            ..RequestFigures::default()
        },
        ..HistoryPoint::default()
    };
    history.points.iter().enumerate().map(point).collect()
}

/// Adds the figures of a rule to those of others, each point to the one of the same time.
fn add(sum: &mut RuleHistory, other: &RuleHistory) {
    let step = sum.step.get().max(1);
    for (at, figures) in other.points.iter().enumerate() {
        let moment = other.from.plus(Micros::new(step.saturating_mul(at as u64)));
        let place = moment.since(sum.from).get() / step;
        let place = usize::try_from(place).ok().filter(|_| moment >= sum.from);
        if let Some(point) = place.and_then(|place| sum.points.get_mut(place)) {
            point.allowed += figures.allowed;
            point.refused += figures.refused;
            point.would_refuse += figures.would_refuse;
        }
    }
}

const fn all(requests: &RequestFigures) -> u64 {
    let RequestFigures { allowed, refused, denied, throttled, unlimited, error, .. } = *requests;
    allowed + refused + denied + throttled + unlimited + error
}

/// Requests that did not pass, also because their rules fail closed.
const fn refused(requests: &RequestFigures) -> u64 {
    requests.refused + requests.denied + requests.error
}

fn seconds(step: Micros) -> f64 {
    (step.get() as f64 / 1e6).max(1e-3)
}

/// The share of the first counts in the second ones, over all, and over time.
fn share(pairs: &[(u64, u64)]) -> Figure {
    let of = |pairs: &[(u64, u64)]| {
        let (part, whole) =
            pairs.iter().fold((0, 0), |(part, whole), (one, other)| (part + one, whole + other));
        if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
    };
    let size = pairs.len().div_ceil(MAX_COURSE).max(1);
    Figure { value: of(pairs), course: pairs.chunks(size).map(of).collect() }
}

/// At most so many averages of values that follow each other.
fn averages(values: &[f64], most: usize) -> Vec<f64> {
    let size = values.len().div_ceil(most).max(1);
    values.chunks(size).map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64).collect()
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn long_ranges_have_bounded_points() {
        let points = (0..3_600).map(|second| point(10_000 + second, 7, 0)).collect();
        let figures = HistoryFigures { step: Micros::from_secs(1), points, revisions: Vec::new() };
        let figures = NodeFigures::new(figures, &range(10_000, 13_600));
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
}
