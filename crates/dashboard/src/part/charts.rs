//! Charts with their legends, sentences and the data behind them.

use maud::{Markup, PreEscaped, html};
use tollgate_chart::{
    Hover, Mark, Meter, Series, Shape, Size, Sparkline, TimeChart, for_both_widths, legend,
};

use super::texts::t;
use crate::model::{Chrome, Effect, LatencySeries, RequestSeries, Time};
use crate::{format, path};

/// Space between the names of two marks, in units of a wide chart.
const MARK_WIDTH: f64 = 150.0;

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
    let details = path::with_query(path::AUDIT, &[("log", "decisions"), ("action", "refused")]);
    html! {
        figure.plot data-zoom="" data-step=(series.step_seconds) data-details=(details) {
            (course_part(id, title, series, chrome))
            figcaption.dim {
                "Point at the chart, or focus it and use the arrow keys. Drag to zoom. "
                a href=(refusals(series)) { "Refusals of this time" }
            }
        }
    }
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
    let label = sentence(title, series, chrome);
    let draw = |size: Size| {
        let names = mark_names(series, &times, size);
        let marks: Vec<Mark<'_>> = series
            .marks
            .iter()
            .zip(&names)
            .map(|(mark, (name, title))| Mark { at: seconds(mark.at), name, title })
            .collect();
        let chart = TimeChart {
            label: &label,
            times: &times,
            series: &rows,
            shape: Shape::Stacked,
            marks: &marks,
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

/// The names and titles of marks. Where marks are close together, only the first has a name.
fn mark_names(series: &RequestSeries, times: &[i64], size: Size) -> Vec<(String, String)> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return series.marks.iter().map(|_| (String::new(), String::new())).collect();
    };
    let width = f64::from(size.width);
    let is_wide = size.width > Size::NARROW.width;
    // Times of a chart are far below 2^53.
    let scale = width / ((last - first).max(1) as f64);
    let needed = if is_wide { MARK_WIDTH } else { 60.0 };
    let mut free_from = f64::MIN;
    series
        .marks
        .iter()
        .map(|mark| {
            let title = format!("revision {}: {}", mark.revision, mark.what);
            let x = (seconds(mark.at) - first) as f64 * scale;
            if x < free_from {
                return (String::new(), title);
            }
            free_from = x + needed;
            let short: String = mark.what.chars().take(24).collect();
            let more = if short.len() < mark.what.len() { "…" } else { "" };
            let name = if is_wide && !short.is_empty() {
                format!("rev {} · {short}{more}", mark.revision)
            } else {
                format!("rev {}", mark.revision)
            };
            (name, title)
        })
        .collect()
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
        [("log", "decisions"), ("action", "refused"), ("since", &since), ("until", &until)];
    path::with_query(path::AUDIT, &fields)
}
