//! Figures over time as charts show them: rates instead of counts, and no more points than fit.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate::Micros;
use tollgate_dashboard::model::{
    Figure, LatencySeries, PointNote, Range, RequestSeries, RevisionMark, Time,
};

use super::convert::time;
use super::range::reach;
use super::visit::Visit;
use crate::observe::history::{
    HistoryFigures, HistoryPoint, Quantiles, RequestFigures, RuleFigures, RuleHistory,
};
use crate::observe::refusers::{Refusers, TopRefuser};

/// The most points of a chart, and one more if the range begins within a step.
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
            mark.has_other_rules && range.from < at && at <= range.until
        });
        let marks = marks.map(|mark| RevisionMark {
            at: time(mark.at),
            revision: mark.revision,
            what: match mark.rules {
                1 => "1 rule".to_owned(),
                rules => format!("{rules} rules"),
            },
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

    /// The 99th percentile of checks in milliseconds; without a course if there were none.
    pub(super) fn check_p99_ms(&self) -> Figure {
        let values: Vec<f64> = self.points.iter().filter_map(|it| it.check.p99).collect();
        let millis: Vec<f64> = values.iter().map(|seconds| seconds * 1e3).collect();
        let value = millis.last().copied().unwrap_or(0.0);
        Figure { value, course: averages(&millis, MAX_COURSE) }
    }

    /// Requests per second by outcome.
    pub(super) fn course(&self) -> RequestSeries {
        let grid = self.grid();
        let per_second = seconds(self.step) * grid.size as f64;
        let sums = |count: fn(&RequestFigures) -> u64| {
            let before = std::iter::repeat_n(None, grid.missing);
            let steps = grid.steps(&self.points).map(|points| {
                let count: u64 = points.iter().map(|point| count(&point.requests)).sum();
                Some(count as f64 / per_second)
            });
            before.chain(steps).collect()
        };
        RequestSeries {
            start: grid.start,
            step_seconds: grid.step_seconds,
            allowed: sums(|requests| requests.allowed + requests.unlimited),
            throttled: sums(|requests| requests.throttled),
            refused: sums(refused),
            notes: self.notes(&grid),
            marks: self.revisions.clone(),
        }
    }

    /// Which rule refused most in each step.
    fn notes(&self, grid: &Grid) -> Vec<PointNote> {
        let note = |(place, points): (usize, &[HistoryPoint])| {
            let mut refusers = Refusers::default();
            points.iter().for_each(|point| refusers.add(&point.refusers));
            let TopRefuser { rule_id, percent, is_least, is_of_one_client } = refusers.top()?;
            let rule = rule_id.unwrap_or("deny list or no rule");
            let least = if is_least { "at least " } else { "" };
            let client = if is_of_one_client { ", of one client" } else { "" };
            let text = format!("{rule}: {least}{percent} % of refusals{client}");
            Some(PointNote { index: grid.missing + place, text })
        };
        grid.steps(&self.points).enumerate().filter_map(note).collect()
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
        let grid = self.grid();
        let series = |quantile: fn(&Quantiles) -> Option<f64>| {
            let before = std::iter::repeat_n(None, grid.missing);
            let steps = grid.steps(&self.points).map(|points| {
                let values = points.iter().filter_map(|point| quantile(&of(point)));
                values.reduce(f64::max).map(|seconds| seconds * 1e3)
            });
            before.chain(steps).collect()
        };
        LatencySeries {
            start: grid.start,
            step_seconds: grid.step_seconds,
            p50: series(|it| it.p50),
            p95: series(|it| it.p95),
            p99: series(|it| it.p99),
        }
    }

    /// The steps of a chart. They begin at multiples of their length, so that a step that is shown stays as it is.
    fn grid(&self) -> Grid {
        let step_ms = (self.step.get() / 1_000).max(1_000);
        let begin = self.points.first().map_or(self.from, |point| time(point.at));
        let in_all =
            usize::try_from(begin.since(self.from) / step_ms).unwrap_or(0) + self.points.len();
        let size = in_all.div_ceil(MAX_POINTS).max(1);
        let size_ms = step_ms * size as u64;
        let into_step = begin.as_millis() % size_ms;
        let before = usize::try_from(into_step / step_ms).unwrap_or(0).min(size - 1);
        let first = Time::from_millis(begin.as_millis() - into_step);
        // The range cuts a step in two, unless the figures begin there.
        let is_cut = before > 0 && begin.since(self.from) < step_ms;
        let (skipped, head) = if is_cut { (size - before, size) } else { (0, size - before) };
        let first = if is_cut { first.plus_millis(size_ms) } else { first };
        let missing = first.since(self.from) / size_ms;
        Grid {
            start: Time::from_millis(first.as_millis().saturating_sub(missing * size_ms)),
            step_seconds: size_ms / 1_000,
            missing: usize::try_from(missing).unwrap_or(0),
            skipped,
            head,
            size,
        }
    }
}

/// The steps of a chart.
struct Grid {
    /// When the first one begins.
    start: Time,
    step_seconds: u64,
    /// How many there are before there are figures.
    missing: usize,
    /// How many points of the history belong to a step before the range.
    skipped: usize,
    /// How many points make the first step with figures.
    head: usize,
    /// How many points make every other step.
    size: usize,
}

impl Grid {
    /// The points of each step. The last step is left out until it is over: with a part of its requests, it would look as
    /// if they had ended.
    fn steps<'p>(&self, points: &'p [HistoryPoint]) -> impl Iterator<Item = &'p [HistoryPoint]> {
        let points = points.get(self.skipped..).unwrap_or_default();
        let (head, rest) = match points.split_at_checked(self.head) {
            Some((head, rest)) => (Some(head), rest),
            None => (None, Default::default()),
        };
        head.into_iter().chain(rest.chunks_exact(self.size))
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
mod tests;
