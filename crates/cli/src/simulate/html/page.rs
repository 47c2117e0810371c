//! The page around charts and tables: what was replayed, the figures that matter, the course of time.

use tollgate_chart::{Hover, Series, Shape, Size, Sparkline, TimeChart, for_both_widths, legend};
use tollgate_simulate::{Breakdown, Timeline};

use super::HtmlReport;
use super::accuracy::{accuracy, algorithms, clock_of};
use super::markup::{Markup, card};
use super::tables;
use crate::terminal::{count, grouped, moment, share, span};

/// The look of the report, in light and dark.
const STYLE: &str = include_str!("report.css");

pub(super) fn render(report: &HtmlReport<'_>, breakdown: &Breakdown<'_>) -> String {
    let timeline = &breakdown.timeline;
    let mut main = header(report);
    main += banners(report);
    main += tiles(report, timeline);
    main += course(report, timeline);
    main += tables::rules(report);
    main += tables::clients(report, breakdown);
    main += tables::clients_in_shadow(report).unwrap_or_default();
    main += tables::endpoints(breakdown).unwrap_or_default();
    main += algorithms(report);
    main += accuracy(report, timeline).unwrap_or_default();
    main += tables::inputs(report);
    let made = format!("Made by tollgate simulate, version {}.", env!("CARGO_PKG_VERSION"));
    main += Markup::with_text("footer", "dim", &made);
    let title = Markup::text(&format!("Simulation: {}", policy_of(report))).into_string();
    let body = Markup::element("main", "", main).into_string();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{title}</title><style>\n{STYLE}</style></head><body>{body}</body></html>\n"
    )
}

/// From when until when, in words.
fn span_of(report: &HtmlReport<'_>) -> String {
    let course = &report.tally.course;
    let lasted = span(course.last.since(course.first).get());
    if report.traffic.is_trace() {
        format!("{lasted} of traffic")
    } else {
        format!("{} to {}, {lasted}", moment(course.first), moment(course.last))
    }
}

/// What was tried.
fn policy_of<'a>(report: &HtmlReport<'a>) -> &'a str {
    if report.policy == "--rule" { "One rule" } else { report.policy }
}

fn header(report: &HtmlReport<'_>) -> Markup {
    let names: Vec<&str> =
        report.traffic.sources().iter().map(|source| source.name.as_str()).collect();
    let inputs = match names.len() {
        0..=3 => names.join(", "),
        more => format!("{}, {} and {} more", names[0], names[1], more - 2),
    };
    let about = format!("{} on {inputs}", policy_of(report));
    Markup::element(
        "header",
        "",
        Markup::all([
            Markup::with_text("h1", "", "Simulation"),
            Markup::element("p", "dim", tables::of_traffic("", &about)),
            Markup::with_text("p", "dim", &span_of(report)),
        ]),
    )
}

fn banners(report: &HtmlReport<'_>) -> Markup {
    let unparsable = report.traffic.unparsable();
    let left_out = (unparsable > 0)
        .then(|| format!("Left out {} that could not be read.", count(unparsable, "line")));
    let banner = |text: String| Markup::with_text("p", "banner", text.trim());
    Markup::all(left_out.into_iter().chain(report.doubt.clone()).map(banner))
}

fn tile(name: &str, class: &'static str, value: &str, about: &str, line: Markup) -> Markup {
    let value = Markup::with_text("b", class, value);
    let about = Markup::with_text("small", "dim", about);
    let name = Markup::with_text("span", "dim", name);
    Markup::element("div", "tile", Markup::all([name, value, about, line]))
}

fn tiles(report: &HtmlReport<'_>, timeline: &Timeline) -> Markup {
    let tally = report.tally;
    let clients = tally.clients.len() as u64;
    let clients_refused = tally.clients_refused();
    let line = |label: &str, values: &[u64], class: &str| {
        let values: Vec<Option<f64>> = values.iter().map(|value| Some(*value as f64)).collect();
        let label = format!("{label} over time");
        Markup::chart(
            Sparkline { label: &label, values: &values, class, size: Sparkline::SIZE }.to_svg(),
        )
    };
    let state = |number: u64, class: &'static str| if number > 0 { class } else { "" };
    let of = |number: u64| format!("{} of {}", grouped(number), grouped(tally.requests));
    let tiles = [
        tile(
            "Requests",
            "",
            &grouped(tally.requests),
            &format!("of {}", count(clients, "client")),
            line("Requests", &timeline.requests(), ""),
        ),
        tile(
            "Refused",
            state(tally.refused, "bad"),
            &share(tally.refused, tally.requests),
            &of(tally.refused),
            line("Refused requests", &timeline.refused, "bad"),
        ),
        tile(
            "Throttled",
            state(tally.delayed, "warn"),
            &share(tally.delayed, tally.requests),
            &if tally.delayed == 0 {
                "no request was delayed".to_owned()
            } else {
                format!("up to {}", span(tally.longest_delay_ms.saturating_mul(1_000)))
            },
            line("Throttled requests", &timeline.throttled, "warn"),
        ),
        tile(
            "Clients refused",
            state(clients_refused, "bad"),
            &grouped(clients_refused),
            &format!("{} of {}", share(clients_refused, clients), grouped(clients)),
            Markup::default(),
        ),
    ];
    Markup::element("div", "tiles", Markup::all(tiles))
}

/// A column, in words: `per minute`, `per 30 s`.
pub(super) fn per(step: u64) -> String {
    match step {
        1 => "per second".to_owned(),
        60 => "per minute".to_owned(),
        3_600 => "per hour".to_owned(),
        86_400 => "per day".to_owned(),
        step => format!("per {}", span(step.saturating_mul(1_000_000))),
    }
}

fn course(report: &HtmlReport<'_>, timeline: &Timeline) -> Markup {
    let per = per(timeline.step);
    let mut heading = Markup::text(&format!("Requests {per}"));
    let times = timeline.times();
    if times.len() < 2 {
        let text = "All requests came within one second, which is too short for a chart.";
        return card(heading, "", Markup::with_text("p", "empty", text));
    }
    heading += Markup::chart(legend(&[
        ("k-allowed", "allowed"),
        ("k-thr", "throttled"),
        ("k-ref", "refused"),
    ]));
    let values =
        |row: &[u64]| -> Vec<Option<f64>> { row.iter().map(|value| Some(*value as f64)).collect() };
    let (allowed, throttled, refused) =
        (values(&timeline.allowed), values(&timeline.throttled), values(&timeline.refused));
    let series = [
        Series { name: "allowed", class: "k-allowed", values: &allowed },
        Series { name: "throttled", class: "k-thr", values: &throttled },
        Series { name: "refused", class: "k-ref", values: &refused },
    ];
    let most = |row: &[u64]| grouped(row.iter().copied().max().unwrap_or(0));
    let label = format!(
        "Requests {per}, {}: at most {}, of which at most {} were refused.",
        span_of(report),
        most(&timeline.requests()),
        most(&timeline.refused),
    );
    let chart = for_both_widths(Size::WIDE, |size| {
        let chart = TimeChart {
            label: &label,
            times: &times,
            series: &series,
            shape: Shape::Stacked,
            size,
            hover: Hover::Titles,
            clock: clock_of(report),
            ..TimeChart::default()
        };
        chart.to_svg()
    });
    card(heading, "", Markup::chart(chart))
}
