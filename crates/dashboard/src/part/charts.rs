//! Charts with their legends, sentences and the data behind them.

use maud::{Markup, PreEscaped, html};
use tollgate_chart::{
    Hover, Mark, Meter, Series, Shape, Size, Sparkline, TimeChart, for_both_widths, legend,
};

use super::texts::t;
use crate::model::{Chrome, Effect, LatencySeries, Outcome, RequestSeries, RevisionMark, Time};
use crate::{format, path};

/// Space between the names of two marks, in units of a wide chart.
const MARK_WIDTH: f64 = 150.0;
/// Marks that are closer than so many units are one.
const MERGED_WIDTH: f64 = 8.0;
/// Of how many changes the title of a mark tells.
const MAX_TITLE_LINES: usize = 8;

/// A small line beside a figure.
pub(crate) fn spark(label: &str, values: &[f64], class: &str) -> Markup {
    let mut values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
    // One value alone would be a dot; as a line it is seen.
    if let [one] = *values {
        values.push(one);
    }
    PreEscaped(Sparkline { label, values: &values, class, size: Sparkline::SIZE }.to_svg())
}

/// A bar that shows a part of a whole.
pub(crate) fn bar(label: &str, value: f64, whole: f64, class: &str) -> Markup {
    PreEscaped(Meter { label, value, whole, class }.to_svg())
}

/// Requests per second over time, stacked, with changes of the policy. It leads to the refusals behind it.
pub(crate) fn course(id: &str, title: &str, series: &RequestSeries, chrome: &Chrome) -> Markup {
    let details =
        path::with_query(path::AUDIT, &[("log", "decisions"), ("action", Outcome::REFUSALS)]);
    html! {
        figure.plot data-zoom="" data-step=(series.step_seconds) data-details=(details) {
            (course_part(id, title, series, chrome))
            figcaption.dim {
                "Point at the chart, or focus it and use the arrow keys. Drag to zoom. "
                @if let Some(begin) = begin_of(series) {
                    "Nothing is known of the time before " (format::moment(begin, chrome.now)) ": this node had not started. "
                }
                a href=(refusals(series)) { "Refusals of this time" }
            }
        }
    }
}

/// When the figures begin, if that is later than the chart does.
fn begin_of(series: &RequestSeries) -> Option<Time> {
    let unknown = series.allowed.iter().position(Option::is_some).filter(|count| *count > 0)?;
    let passed = (unknown as u64).saturating_mul(series.step_seconds).saturating_mul(1_000);
    Some(series.start.plus_millis(passed))
}

/// The part of [`course`] that moves.
pub(crate) fn course_part(
    id: &str,
    title: &str,
    series: &RequestSeries,
    chrome: &Chrome,
) -> Markup {
    let times = times(series.start, series.step_seconds, series.allowed.len());
    let rows = [
        Series { name: "allowed", class: "k-allowed", values: &series.allowed },
        Series { name: "throttled", class: "k-thr", values: &series.throttled },
        Series { name: "refused", class: "k-ref", values: &series.refused },
    ];
    // Up to now, so that a change of a moment ago is seen before the next step is over.
    let span = times.first().zip(times.last());
    let span = span.map(|(first, last)| (*first, seconds(chrome.range.until).max(*last)));
    let label = sentence(title, series, chrome);
    let draw = |size: Size| {
        let drawn = marks_of(series, span, size);
        let marks: Vec<Mark<'_>> = drawn
            .iter()
            .map(|mark| Mark { at: seconds(mark.at), name: &mark.name, title: &mark.title })
            .collect();
        let chart = TimeChart {
            label: &label,
            times: &times,
            series: &rows,
            shape: Shape::Stacked,
            marks: &marks,
            span,
            size,
            hover: Hover::Data,
            ..TimeChart::default()
        };
        chart.to_svg()
    };
    let has_data =
        [&series.allowed, &series.throttled, &series.refused].into_iter().any(|it| any(it));
    html! {
        div.fragment id=(id) data-notes=(notes(series)) {
            @if has_data { (PreEscaped(for_both_widths(Size::WIDE, draw))) } @else { (no_data()) }
        }
    }
}

/// The legend of [`course`].
pub(crate) fn course_legend() -> Markup {
    let entries = [("k-allowed", "allowed"), ("k-thr", "throttled"), ("k-ref", "refused")];
    PreEscaped(legend(&entries))
}

/// Quantiles over time.
pub(crate) fn latency(id: &str, title: &str, series: &LatencySeries, now: Time) -> Markup {
    html! { figure.plot data-zoom="" { (latency_part(id, title, series, now)) } }
}

/// The part of [`latency`] that moves.
pub(crate) fn latency_part(id: &str, title: &str, series: &LatencySeries, now: Time) -> Markup {
    let times = times(series.start, series.step_seconds, series.p99.len());
    let rows = [
        Series { name: "p50", class: "k50", values: &series.p50 },
        Series { name: "p95", class: "k95", values: &series.p95 },
        Series { name: "p99", class: "k99", values: &series.p99 },
    ];
    let most = greatest(&series.p99).map_or_else(String::new, |(at, value)| {
        let at = series.start.plus_millis(at as u64 * series.step_seconds * 1_000);
        format!(": p99 at most {} ms, at {}", format::millis(value), format::moment(at, now))
    });
    let label = format!("{title} in milliseconds{most}.");
    let draw = |size: Size| {
        let chart = TimeChart {
            label: &label,
            times: &times,
            series: &rows,
            unit: " ms",
            size,
            hover: Hover::Data,
            ..TimeChart::default()
        };
        chart.to_svg()
    };
    html! {
        div.fragment id=(id) {
            @if any(&series.p99) { (PreEscaped(for_both_widths(Size::HALF, draw))) } @else { (no_data()) }
        }
    }
}

/// The legend of [`latency`].
pub(crate) fn latency_legend() -> Markup {
    PreEscaped(legend(&[("k50", "p50"), ("k95", "p95"), ("k99", "p99")]))
}

/// Refusals under the policy in force, and with a change.
pub(crate) fn effect_course(effect: &Effect) -> Markup {
    let length = effect.course_now.len().max(effect.course_then.len());
    let times = times(effect.start, effect.step_seconds, length);
    let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
    let (now, then) = (some(&effect.course_now), some(&effect.course_then));
    let rows = [
        Series { name: "now", class: "k-now", values: &now },
        Series { name: "with the change", class: "k-then", values: &then },
    ];
    let step = format::duration(effect.step_seconds * 1_000);
    let label = format!(
        "Refusals per {step}: {} now, {} with the change.",
        format::count(effect.refused_now),
        format::count(effect.refused_then)
    );
    let draw = |size: Size| {
        let chart = TimeChart {
            label: &label,
            times: &times,
            series: &rows,
            size,
            hover: Hover::Data,
            ..TimeChart::default()
        };
        chart.to_svg()
    };
    html! {
        figure.plot {
            div.fragment { (PreEscaped(for_both_widths(Size::HALF, draw))) }
            figcaption.dim {
                "Refusals per " (t(&step)) ": "
                (PreEscaped(legend(&[("k-now", "now"), ("k-then", "with the change")])))
            }
        }
    }
}

/// In place of a chart without a single value.
fn no_data() -> Markup {
    html! { div.nodata.dim { "No figures in this range yet." } }
}

fn any(values: &[Option<f64>]) -> bool {
    values.iter().any(Option::is_some)
}

fn seconds(time: Time) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

fn times(start: Time, step_seconds: u64, length: usize) -> Vec<i64> {
    (0..length as u64)
        .map(|at| seconds(start.plus_millis(at.saturating_mul(step_seconds).saturating_mul(1_000))))
        .collect()
}

/// The greatest value and where it is.
fn greatest(values: &[Option<f64>]) -> Option<(usize, f64)> {
    let known = values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
    known.filter(|(_, value)| value.is_finite()).max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// What a chart shows, as a sentence.
fn sentence(title: &str, series: &RequestSeries, chrome: &Chrome) -> String {
    let at = |index: usize| {
        let passed = (index as u64).saturating_mul(series.step_seconds).saturating_mul(1_000);
        format::moment(series.start.plus_millis(passed), chrome.now)
    };
    let span = format::span(chrome.range.from, chrome.range.until, chrome.now);
    let peak = |values: &[Option<f64>]| greatest(values).filter(|(_, value)| *value > 0.0);
    let allowed = peak(&series.allowed).map_or_else(
        || "no requests allowed".to_owned(),
        |(index, value)| format!("up to {} allowed, at {}", format::rate(value), at(index)),
    );
    let refused = peak(&series.refused).map_or_else(
        || "none refused".to_owned(),
        |(index, value)| format!("up to {} refused, at {}", format::rate(value), at(index)),
    );
    format!("{title}, {span} UTC: {allowed}; {refused}.")
}

/// A mark of a chart: one change, or several that are so close that their lines would touch.
struct DrawnMark {
    at: Time,
    name: String,
    title: String,
}

/// The marks of a chart. Where they are close together, only the first has a name.
fn marks_of(series: &RequestSeries, span: Option<(i64, i64)>, size: Size) -> Vec<DrawnMark> {
    let Some((first, last)) = span else { return Vec::new() };
    let width = f64::from(size.width);
    let is_wide = size.width > Size::NARROW.width;
    // Times of a chart are far below 2^53.
    let scale = width / ((last - first).max(1) as f64);
    let x = |at: Time| (seconds(at) - first) as f64 * scale;
    let mut marks: Vec<&RevisionMark> = series.marks.iter().collect();
    marks.sort_by_key(|mark| mark.at);
    let mut groups: Vec<Vec<&RevisionMark>> = Vec::new();
    for mark in marks {
        match groups.last_mut() {
            Some(group) if x(mark.at) - x(group[0].at) < MERGED_WIDTH => group.push(mark),
            _ => groups.push(vec![mark]),
        }
    }
    let needed = if is_wide { MARK_WIDTH } else { 60.0 };
    let mut free_from = f64::MIN;
    let drawn = groups.iter().filter_map(|group| {
        let at = group.first()?.at;
        let has_name = x(at) >= free_from;
        if has_name {
            free_from = x(at) + needed;
        }
        let name = if has_name { mark_name(group, is_wide) } else { String::new() };
        Some(DrawnMark { at, name, title: mark_title(group) })
    });
    drawn.collect()
}

/// What stands beside the line of some changes.
fn mark_name(group: &[&RevisionMark], is_wide: bool) -> String {
    let [mark] = group else { return format::counted(group.len() as u64, "change") };
    let short: String = mark.what.chars().take(24).collect();
    let more = if short.len() < mark.what.len() { "…" } else { "" };
    if is_wide && !short.is_empty() {
        format!("rev {} · {short}{more}", mark.revision)
    } else {
        format!("rev {}", mark.revision)
    }
}

/// What the line of some changes is about: each change in a line.
fn mark_title(group: &[&RevisionMark]) -> String {
    let line = |mark: &&RevisionMark| format!("revision {}: {}", mark.revision, mark.what);
    let mut lines: Vec<String> = group.iter().take(MAX_TITLE_LINES).map(line).collect();
    if group.len() > lines.len() {
        lines.push(format!("and {} more", group.len() - lines.len()));
    }
    lines.join("; ")
}

/// What stands behind points, for the script: `INDEX TEXT` a line.
fn notes(series: &RequestSeries) -> String {
    let lines: Vec<String> = series
        .notes
        .iter()
        .map(|note| format!("{} {}", note.index, tollgate_chart::shown(&note.text)))
        .collect();
    lines.join("\n")
}

/// The refusals within a series, in the log of decisions.
fn refusals(series: &RequestSeries) -> String {
    let length = (series.allowed.len() as u64).saturating_mul(series.step_seconds);
    let until = series.start.plus_millis(length.saturating_mul(1_000));
    let (since, until) = (format::rfc_3339(series.start), format::rfc_3339(until));
    let fields =
        [("log", "decisions"), ("action", Outcome::REFUSALS), ("since", &since), ("until", &until)];
    path::with_query(path::AUDIT, &fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ats: &[u64]) -> Vec<(String, String)> {
        let marks = (1..).zip(ats).map(|(revision, at)| RevisionMark {
            at: Time::from_secs(*at),
            revision,
            what: "4 rules".to_owned(),
        });
        let series = RequestSeries { marks: marks.collect(), ..RequestSeries::default() };
        let drawn = marks_of(&series, Some((0, 86_400)), Size::WIDE);
        drawn.into_iter().map(|mark| (mark.name, mark.title)).collect()
    }

    /// Changes of a busy hour were a black bar in the chart of a day.
    #[test]
    fn marks_that_would_touch_are_one() {
        let text = |text: &str| text.to_owned();
        let close = names(&[40_000, 40_010, 40_020]);
        let title = "revision 1: 4 rules; revision 2: 4 rules; revision 3: 4 rules";
        assert_eq!(close, [(text("3 changes"), text(title))]);
        let apart = names(&[10_000, 40_000]);
        let expected = ["rev 1 · 4 rules", "rev 2 · 4 rules"];
        assert_eq!(apart.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), expected);
        let many: Vec<u64> = (0..500).map(|at| 100 + at * 170).collect();
        let drawn = names(&many);
        assert!(drawn.len() < 130, "{}", drawn.len());
        let busy: Vec<u64> = (0..20).map(|at| 40_000 + at).collect();
        assert!(names(&busy)[0].1.ends_with("; and 12 more"), "{:?}", names(&busy));
    }
}
