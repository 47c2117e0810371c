//! Six algorithms side by side, and the sliding counter against the exact log, on this traffic.

use tollgate::Algorithm;
use tollgate_chart::{
    Bar, BarChart, BarGroup, Hover, Series, Size, TimeChart, TimeLabels, for_both_widths, legend,
};
use tollgate_simulate::{AlgorithmFigures, Timeline};

use super::HtmlReport;
use super::markup::{Markup, card, heading, table};
use super::page::per;
use super::tables::figure;
use crate::terminal::{count, grouped, share, span};

pub(super) fn algorithms(report: &HtmlReport<'_>) -> Markup {
    let rows = report.algorithms;
    let texts: Vec<String> = rows.iter().map(|row| share(row.refused, row.requests)).collect();
    let bars: Vec<[Bar<'_>; 1]> = rows
        .iter()
        .zip(&texts)
        .map(|(row, text)| [Bar { class: "k-ref", value: row.refused as f64, text }])
        .collect();
    let groups: Vec<BarGroup<'_>> =
        rows.iter().zip(&bars).map(|(row, bars)| BarGroup { name: row.algorithm, bars }).collect();
    let figures: Vec<String> =
        rows.iter().zip(&texts).map(|(row, text)| format!("{} {text}", row.algorithm)).collect();
    let label = format!("Share of requests refused: {}.", figures.join(", "));
    let chart = for_both_widths(Size::WIDE, |size| {
        BarChart { label: &label, groups: &groups, width: size.width }.to_svg()
    });
    let mut content = Markup::chart(chart);
    content += table(
        [
            heading("algorithm", "text"),
            heading("allowed", "num opt"),
            heading("refused", "num"),
            heading("clients", "num opt"),
            heading("throttled", "num opt"),
            heading("unlike the log", "num"),
            heading("looser", "num opt"),
            heading("stricter", "num opt"),
        ],
        rows.iter().map(row).collect(),
    );
    let about = "The same limits and windows, counted in six ways; bars are refused requests. \
                 Unlike the log: decided otherwise than by sliding_window_log, which is exact. \
                 Looser: of these, allowed here and refused by the log; stricter: the other way round.";
    card(Markup::text("Six algorithms, the same limits"), about, content)
}

fn row(row: &AlgorithmFigures) -> [Markup; 8] {
    let throttled = if row.delayed == 0 {
        "-".to_owned()
    } else {
        let longest = span(row.longest_delay_ms.saturating_mul(1_000));
        format!("{} (up to {longest})", grouped(row.delayed))
    };
    [
        Markup::with_text("b", "", row.algorithm),
        figure(row.allowed),
        figure(row.refused),
        figure(row.clients_refused),
        Markup::text(&throttled),
        Markup::text(&share(row.unlike_log, row.requests)),
        figure(row.looser),
        figure(row.stricter),
    ]
}

pub(super) fn accuracy(report: &HtmlReport<'_>, timeline: &Timeline) -> Option<Markup> {
    let find = |algorithm: Algorithm| {
        report.algorithms.iter().find(|row| row.algorithm == algorithm.name())
    };
    let counter = find(Algorithm::SlidingWindowCounter)?;
    let log = find(Algorithm::SlidingWindowLog)?;
    let same = share(counter.requests - counter.unlike_log, counter.requests);
    let difference = match counter.allowed.cmp(&log.allowed) {
        std::cmp::Ordering::Equal => "In sum both allowed equally many.".to_owned(),
        std::cmp::Ordering::Greater => {
            let more = counter.allowed - log.allowed;
            format!("In sum it allowed {} more, {}.", grouped(more), share(more, log.allowed))
        }
        std::cmp::Ordering::Less => {
            let fewer = log.allowed - counter.allowed;
            format!("In sum it allowed {} fewer, {}.", grouped(fewer), share(fewer, log.allowed))
        }
    };
    let about = format!(
        "The counter keeps two numbers for each client and estimates; the log keeps every request and is \
         exact. The counter decided {same} of {} as the log did. It allowed {} that the log refused, and \
         refused {} that the log allowed. {difference}",
        count(counter.requests, "request"),
        grouped(counter.looser),
        grouped(counter.stricter),
    );
    let times = timeline.times();
    let mut heading = Markup::text("Sliding counter against the exact log");
    let content = if times.len() < 2 {
        Markup::default()
    } else {
        heading +=
            Markup::chart(legend(&[("k95", "refused by the counter"), ("k50", "by the log")]));
        let (by_counter, by_log) =
            (over_time(report, timeline, counter), over_time(report, timeline, log));
        let series = [
            Series { name: "counter", class: "k95", values: &by_counter },
            Series { name: "log", class: "k50", values: &by_log },
        ];
        let label =
            format!("Requests refused {} by the counter and by the log.", per(timeline.step));
        Markup::chart(for_both_widths(Size::WIDE, |size| {
            let chart = TimeChart {
                label: &label,
                times: &times,
                series: &series,
                size,
                hover: Hover::Titles,
                clock: clock_of(report),
                ..TimeChart::default()
            };
            chart.to_svg()
        }))
    };
    Some(card(heading, &about, content))
}

/// A trace has no date.
pub(super) fn clock_of(report: &HtmlReport<'_>) -> TimeLabels {
    if report.traffic.is_trace() { TimeLabels::Elapsed } else { TimeLabels::Utc }
}

fn over_time(
    report: &HtmlReport<'_>,
    timeline: &Timeline,
    row: &AlgorithmFigures,
) -> Vec<Option<f64>> {
    let mut refused = vec![0_u64; timeline.allowed.len()];
    for (record, is_allowed) in report.traffic.iter().zip(&row.verdicts) {
        if let Some(count) = refused.get_mut(timeline.column(record.time()))
            && !is_allowed
        {
            *count += 1;
        }
    }
    refused.into_iter().map(|count| Some(count as f64)).collect()
}
