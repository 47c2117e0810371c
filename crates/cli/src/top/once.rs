//! The figures printed once: as text for people, or as JSON for programs.

use serde_json::{Value, json};

use super::figures::{CheckLatency, ListKind, LiveFigures, PolledResponses, ShownRow};
use crate::table::{Column, rows_of};
use crate::terminal::{count, grouped, lasting, span};

/// The figures as JSON: rates and latency, then the responses of `/api/v1/stats`, `/api/v1/nodes` and `/api/v1/top`, as
/// they came.
pub(super) fn json(polled: &PolledResponses, figures: &LiveFigures) -> String {
    let quantiles = figures
        .latency
        .map(|CheckLatency { p50, p95, p99 }| json!({ "p50": p50, "p95": p95, "p99": p99 }));
    let mut whole = json!({
        "requests_per_second": figures.requests.now,
        "refused_per_second": figures.refused.now,
        "check_seconds": quantiles,
        "store": figures.fleet.as_ref().map(|fleet| fleet.store.as_str()),
        "nodes": polled.nodes.as_ref().map(|response| &response["nodes"]),
    });
    for name in
        ["uptime_seconds", "revision", "silent_nodes", "others_unreachable_since", "totals", "bans"]
    {
        whole[name] = polled.stats.get(name).cloned().unwrap_or(Value::Null);
    }
    for name in ["by", "window_seconds"].into_iter().chain(ListKind::ALL.map(ListKind::name)) {
        whole[name] = polled.top.get(name).cloned().unwrap_or(Value::Null);
    }
    whole.to_string()
}

/// The figures as text.
pub(super) fn text(figures: &LiveFigures) -> String {
    let mut lines = summary(figures).join("\n") + "\n";
    for (list, kind) in figures.lists.iter().zip(ListKind::ALL) {
        if list.rows.is_empty() {
            continue;
        }
        let lack = match list.may_lack {
            0 => String::new(),
            lack => format!(", each may lack {}", grouped(lack)),
        };
        lines += &format!("\n{} (by {}, {}{lack})\n", kind.title(), figures.by, window(figures));
        lines += &table_of(&list.rows);
    }
    if figures.lists.iter().all(|list| list.rows.is_empty()) {
        lines += &format!("\nno requests in {}\n", window(figures));
    }
    lines
}

/// How far back the lists go.
pub(super) fn window(figures: &LiveFigures) -> String {
    format!("the last {}", span(figures.window_seconds.saturating_mul(1_000_000)))
}

fn summary(figures: &LiveFigures) -> Vec<String> {
    let LiveFigures { uptime_seconds, revision, bans, fleet, silent, .. } = figures;
    let mut about = vec![format!("up for {}", lasting(uptime_seconds.floor()))];
    about.push(format!("revision {revision}"));
    if let Some(fleet) = fleet {
        about.push(count(fleet.nodes as u64, "node"));
        about.push(format!("store {}", fleet.store));
    }
    about.extend(bans.map(|bans| format!("{} in force", count(bans, "ban"))));
    if *silent > 0 {
        about.push(format!("{} did not respond", count(*silent as u64, "node")));
    }
    let about = match &figures.unreachable_since {
        Some(since) => vec![
            about.join(", "),
            format!(
                "other nodes cannot be reached since {since}: these figures are of one node only"
            ),
        ],
        None => vec![about.join(", ")],
    };
    let requests = if fleet.is_some() { "requests/s" } else { "decisions/s" };
    let mut rates = vec![
        format!("{requests} {}", rate(figures.requests.now)),
        format!("refused/s {}", rate(figures.refused.now)),
    ];
    rates.extend(figures.latency.map(|latency| format!("checks {}", latency_text(latency))));
    about.into_iter().chain([rates.join(", ")]).collect()
}

/// A rate: small ones with a decimal.
pub(super) fn rate(rate: f64) -> String {
    if rate > 0.0 && rate < 99.95 { format!("{rate:.1}") } else { grouped(rate.round() as u64) }
}

/// Quantiles of durations.
pub(super) fn latency_text(latency: CheckLatency) -> String {
    let CheckLatency { p50, p95, p99 } = latency;
    let time = |seconds: f64| span((seconds.max(0.0) * 1e6).round() as u64);
    format!("p50 {} p95 {} p99 {}", time(p50), time(p95), time(p99))
}

/// Rows, with the columns that have something in them.
fn table_of(rows: &[ShownRow]) -> String {
    type Cell = fn(&ShownRow) -> String;
    let columns: [(Column, Cell); 5] = [
        (Column::Figure("count"), |row| grouped(row.count)),
        (Column::Figure("used"), |row| row.used.map(|it| format!("{it} %")).unwrap_or_default()),
        (Column::Text("name"), |row| row.name.clone()),
        (Column::Text("tenant"), |row| row.tenant.clone()),
        (Column::Text("rule"), |row| row.rule.clone()),
    ];
    let columns = columns.iter().filter(|(_, cell)| rows.iter().any(|row| !cell(row).is_empty()));
    let (columns, cells): (Vec<Column>, Vec<Cell>) = columns.copied().unzip();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| cells.iter().map(|cell| cell(row)).collect()).collect();
    rows_of(&columns, &rows)
}
