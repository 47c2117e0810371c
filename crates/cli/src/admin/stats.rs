//! `tollgate stats` and `tollgate decisions top`: how requests ended on a node, and which clients are refused most.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;
use tollgate::rules::candidate_id;

use super::history::{NodeHistoryArguments, history};
use super::reached::ReachedNodes;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::output::print;
use crate::remote::client::Remote;
use crate::table::{Column, rows_of, table};
use crate::terminal::{count, grouped, printable, share, span};

/// Arguments of `tollgate stats`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct StatsArguments {
    #[command(subcommand)]
    pub(super) command: Option<StatsCommand>,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum StatsCommand {
    /// Show how requests ended on a node over the last hours, and how long checks took.
    History(NodeHistoryArguments),
}

/// What is ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RankedBy {
    /// Clients.
    Client,
    /// Rules.
    Rule,
    /// Paths.
    Endpoint,
}

impl RankedBy {
    pub(crate) const ALL: [Self; 3] = [Self::Client, Self::Rule, Self::Endpoint];

    /// Its name in queries.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Rule => "rule",
            Self::Endpoint => "endpoint",
        }
    }
}

/// Arguments of `tollgate decisions top`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct TopArguments {
    /// What is ranked.
    #[arg(long, value_name = "WHAT", default_value = "client")]
    pub(super) by: RankedBy,

    /// How far to look back, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=300))]
    pub(super) window: u64,

    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(super) limit: u64,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// The figures of a fleet, or of a node without one.
#[derive(Deserialize)]
struct Figures {
    uptime_seconds: f64,
    revision: u64,
    /// A tenant-admin does not see these two.
    #[serde(default)]
    totals: BTreeMap<String, u64>,
    #[serde(default)]
    bans: BTreeMap<String, u64>,
    #[serde(flatten)]
    reached: ReachedNodes,
    rules: Vec<RuleFigures>,
}

/// The figures of a rule.
#[derive(Deserialize)]
struct RuleFigures {
    rule_id: String,
    admitted: u64,
    refused: u64,
    banned: u64,
    would_refuse: u64,
    delayed: u64,
    degraded: u64,
    /// Older servers do not say it.
    #[serde(default)]
    fallback_closed: u64,
    #[serde(default)]
    candidate: Option<TriedFigures>,
}

/// The figures of a candidate.
#[derive(Clone, Copy, Deserialize)]
struct TriedFigures {
    admitted: u64,
    would_refuse: u64,
    would_delay: u64,
}

/// The rankings of requests.
#[derive(Deserialize)]
struct Rankings {
    by: String,
    window_seconds: u64,
    #[serde(flatten)]
    reached: ReachedNodes,
    refused: Ranking,
    near_limit: Ranking,
    busiest: Ranking,
    would_refuse: Ranking,
}

#[derive(Deserialize)]
struct Ranking {
    may_lack: u64,
    top: Vec<Ranked>,
}

#[derive(Deserialize)]
struct Ranked {
    name: String,
    count: u64,
    tenant: Option<String>,
    rule_id: Option<String>,
}

/// All requests, and how they end, in the order in which they are shown.
pub(super) const OUTCOMES: [&str; 7] =
    ["requests", "allowed", "refused", "denied", "throttled", "unlimited", "error"];

/// What the requests of the outcome `error` are.
const NOT_CHECKED: &str = "error: not checked, because a rule fails closed without its store (see \"failed closed\"), the \
     request was invalid, or its caller left";

/// Prints the figures of a fleet, or of a node without one.
pub(crate) fn stats(arguments: &StatsArguments) -> Result<ExitCode, Failure> {
    if let Some(StatsCommand::History(arguments)) = &arguments.command {
        return history(arguments);
    }
    let response = Remote::new(&arguments.server)?.get::<Figures>("/api/v1/stats")?;
    print(&if arguments.server.json { response.text } else { response.value.render() })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the rankings of a fleet, or of a node without one.
pub(super) fn top(arguments: &TopArguments) -> Result<ExitCode, Failure> {
    let TopArguments { by, window, limit, server } = arguments;
    let path = format!("/api/v1/top?by={}&window={window}&limit={limit}", by.name());
    let response = Remote::new(server)?.get::<Rankings>(&path)?;
    print(&if server.json { response.text } else { response.value.render() })?;
    Ok(ExitCode::SUCCESS)
}

impl Figures {
    fn render(&self) -> String {
        let Self { uptime_seconds, revision, totals, bans, reached, rules } = self;
        let uptime = span((uptime_seconds.max(0.0) * 1e6) as u64);
        let all = totals.get("requests").copied().unwrap_or(0);
        let rows: Vec<[String; 3]> = OUTCOMES
            .iter()
            .filter_map(|name| Some((*name, *totals.get(*name)?)))
            .map(|(name, number)| [name.to_owned(), grouped(number), share(number, all)])
            .collect();
        let mut head = format!("up for {uptime}, revision {revision}");
        if let Some(bans) = bans.get("in_force") {
            head += &format!(", {} in force", count(*bans, "ban"));
        }
        if let Some(nodes) = reached.count() {
            head += &format!(", figures of {nodes}");
        }
        head += "\n";
        head += &reached.missing();
        if !rows.is_empty() {
            let columns = [Column::Text(""), Column::Figure("requests"), Column::Figure("share")];
            head += &format!("\n{}", table(columns, &rows));
        }
        if totals.get("error").is_some_and(|errors| *errors > 0) {
            head += &format!("\n{NOT_CHECKED}\n");
        }
        if rules.is_empty() {
            return head;
        }
        let columns = [
            Column::Text("rule"),
            Column::Figure("admitted"),
            Column::Figure("refused"),
            Column::Figure("share"),
            Column::Figure("banned"),
            Column::Figure("failed closed"),
            Column::Figure("would refuse"),
            Column::Figure("delayed"),
            Column::Figure("degraded"),
        ];
        let rows: Vec<[String; 9]> = rules.iter().flat_map(RuleFigures::rows).collect();
        format!("{head}\n{}", table(columns, &rows))
    }
}

impl RuleFigures {
    /// The rule, and its candidate.
    fn rows(&self) -> impl Iterator<Item = [String; 9]> {
        let candidate =
            self.candidate.map(|TriedFigures { admitted, would_refuse, would_delay }| {
                let (admitted, delayed) = (grouped(admitted), grouped(would_delay));
                let none = String::new;
                [
                    candidate_id(&self.rule_id),
                    admitted,
                    none(),
                    none(),
                    none(),
                    none(),
                    grouped(would_refuse),
                    delayed,
                    none(),
                ]
            });
        [self.cells()].into_iter().chain(candidate)
    }

    fn cells(&self) -> [String; 9] {
        let Self { rule_id, admitted, refused, banned, would_refuse, delayed, degraded, .. } = self;
        let fallback_closed = self.fallback_closed;
        let stopped = refused.saturating_add(*banned).saturating_add(fallback_closed);
        let all = admitted.saturating_add(stopped);
        [
            rule_id.clone(),
            grouped(*admitted),
            grouped(*refused),
            share(stopped, all),
            grouped(*banned),
            grouped(fallback_closed),
            grouped(*would_refuse),
            grouped(*delayed),
            grouped(*degraded),
        ]
    }
}

impl Rankings {
    fn render(&self) -> String {
        let lists = [
            ("refused", &self.refused),
            ("near a limit", &self.near_limit),
            ("busiest", &self.busiest),
            ("would be refused by shadow rules", &self.would_refuse),
        ];
        let window = span(self.window_seconds.saturating_mul(1_000_000));
        let mut lines = format!("by {}, the last {window}\n", printable(&self.by));
        lines += &self.reached.missing();
        for (what, Ranking { may_lack, top }) in
            lists.into_iter().filter(|(_, it)| !it.top.is_empty())
        {
            let lack = match may_lack {
                0 => String::new(),
                lack => format!(" (each may lack {})", grouped(*lack)),
            };
            lines += &format!("\n{what}{lack}\n{}", ranked(top));
        }
        if self.busiest.top.is_empty() {
            lines += "no requests\n";
        }
        lines
    }
}

/// A ranking, with tenants and rules if it has any.
fn ranked(top: &[Ranked]) -> String {
    let has = |of: fn(&Ranked) -> &Option<String>| top.iter().any(|it| of(it).is_some());
    let is_named = has(|it| &it.tenant) || has(|it| &it.rule_id);
    let mut columns = vec![Column::Figure(""), Column::Text("")];
    if is_named {
        columns = vec![
            Column::Figure("requests"),
            Column::Text("name"),
            Column::Text("tenant"),
            Column::Text("rule"),
        ];
    }
    let row = |it: &Ranked| {
        let mut cells = vec![grouped(it.count), it.name.clone()];
        if is_named {
            cells.extend([&it.tenant, &it.rule_id].map(|it| it.clone().unwrap_or_default()));
        }
        cells
    };
    rows_of(&columns, &top.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_tables() {
        let answer = r#"{"uptime_seconds":61.0,"revision":3,"bans":{"in_force":1,"made":1,"not_made":0},
            "totals":{"requests":4,"allowed":3,"refused":1,"denied":0,"throttled":0,"unlimited":0,"error":4},
            "rules":[{"rule_id":"r","admitted":3,"refused":1,"banned":0,"would_refuse":0,"warned":0,"delayed":0,"degraded":4,"fallback_closed":4,
                "candidate":{"admitted":2,"would_refuse":1,"would_delay":0}}]}"#;
        let figures: Figures = serde_json::from_str(answer).expect("an answer");
        let shown = figures.render();
        assert!(shown.starts_with("up for 1 min 1 s, revision 3, 1 ban in force\n"), "{shown}");
        assert!(shown.contains(" refused           1   25.00 %\n"), "{shown}");
        let rule = " r                   3        1  62.50 %       0              4             0        0         4";
        let candidate = " r~candidate         2                                                      1        0";
        let last: Vec<&str> = shown.lines().rev().take(2).map(str::trim_end).collect();
        assert_eq!(last, [candidate, rule], "{shown}");
        assert!(shown.contains("\nerror: not checked, because a rule fails closed"), "{shown}");
    }

    /// With the store away, a node printed its own figures as those of the fleet.
    #[test]
    fn nodes_that_are_missing_are_named() {
        let check = |reached: &str, expected: &str| {
            let figures = format!(r#"{{"uptime_seconds":61.0,"revision":3,"rules":[]{reached}}}"#);
            let figures: Figures = serde_json::from_str(&figures).expect("an answer");
            assert_eq!(figures.render(), format!("up for 1 min 1 s, revision 3{expected}\n"));
        };
        check("", "");
        check(r#","nodes":3,"silent_nodes":[]"#, ", figures of 3 nodes");
        check(
            r#","nodes":1,"silent_nodes":["a","b\u001b"],"others_unreachable_since":"2026-11-18T08:18:12Z""#,
            ", figures of 1 node\n\
             other nodes cannot be reached since 2026-11-18T08:18:12Z: these figures are of one node only\n\
             without 2 silent nodes: a, b\u{fffd}",
        );
    }

    #[test]
    fn rankings_are_lists() {
        let list = |top: &str| format!(r#"{{"exact":false,"may_lack":2,"top":[{top}]}}"#);
        let of = |refused: &str| {
            format!(
                r#"{{"by":"client","window_seconds":60,"refused":{},"near_limit":{},"busiest":{},"would_refuse":{}}}"#,
                list(refused),
                list(""),
                list(refused),
                list("")
            )
        };
        let check = |answer: &str, expected: &str| {
            let rankings: Rankings = serde_json::from_str(answer).expect("an answer");
            assert_eq!(rankings.render(), expected);
        };
        check(&of(""), "by client, the last 1 min\nno requests\n");
        check(
            &of(r#"{"name":"eve\u0007","count":1200}"#),
            "by client, the last 1 min\n\nrefused (each may lack 2)\n 1,200  eve\u{fffd}\n\nbusiest (each may lack 2)\n 1,200  eve\u{fffd}\n",
        );
        check(
            &of(r#"{"name":"eve","tenant":"acme","rule_id":"per_ip","count":1200},{"name":"bob","count":3}"#)
                .replace("\"may_lack\":2", "\"may_lack\":0"),
            "by client, the last 1 min

refused
 requests  name  tenant  rule
    1,200  eve   acme    per_ip
        3  bob

busiest
 requests  name  tenant  rule
    1,200  eve   acme    per_ip
        3  bob
",
        );
    }
}
