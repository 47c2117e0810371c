//! Figures of a real server over minutes, from two scrapes of each state: what changed between them goes on for as long
//! as the state is said to last. promtool evaluates the rules on them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;

use crate::evaluation::{SCRAPE_SECONDS, TARGET, evaluate};
use tollgate_e2e::server::Server;

const STEPS_PER_MINUTE: usize = 60 / SCRAPE_SECONDS;

/// What `/metrics` showed; nothing if the server did not respond.
#[derive(Default)]
struct Scrape {
    kinds: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

impl Scrape {
    fn of(server: &Server) -> Self {
        let mut scrape = Self::default();
        if TcpStream::connect(server.address).is_err() {
            scrape.samples.insert(with_target("up"), 0.0);
            return scrape;
        }
        scrape.samples.insert(with_target("up"), 1.0);
        for line in server.get("/metrics").text().lines() {
            if let Some((name, kind)) =
                line.strip_prefix("# TYPE ").and_then(|family| family.split_once(' '))
            {
                scrape.kinds.insert(name.to_owned(), kind.to_owned());
            } else if let Some((series, value)) = line.rsplit_once(' ')
                && !line.starts_with('#')
            {
                scrape.samples.insert(with_target(series), value.parse().expect("a number"));
            }
        }
        scrape
    }

    /// Whether a series only grows.
    fn counts(&self, series: &str) -> bool {
        let name = series.split('{').next().unwrap_or_default();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|part| {
            let family = name.strip_suffix(part)?;
            self.kinds.contains_key(family).then_some(family)
        });
        let kind = self.kinds.get(family.unwrap_or(name)).map(String::as_str);
        matches!(kind, Some("counter" | "histogram"))
    }
}

fn with_target(series: &str) -> String {
    match series.split_once('{') {
        Some((name, labels)) => format!("{name}{{{TARGET},{labels}"),
        None => format!("{series}{{{TARGET}}}"),
    }
}

/// A state that lasts.
struct Lasting {
    before: Scrape,
    after: Scrape,
    steps: usize,
    /// In how many steps the counters grew by the difference.
    steps_between: usize,
}

/// The states of a server, one after the other.
pub(crate) struct Timeline<'a> {
    server: &'a Server,
    states: Vec<Lasting>,
}

impl<'a> Timeline<'a> {
    pub(crate) fn of(server: &'a Server) -> Self {
        Self { server, states: Vec::new() }
    }

    /// The server is in a state for so many minutes; `act` is what happens from one scrape to the next.
    pub(crate) fn lasts(&mut self, minutes: usize, act: impl FnOnce()) {
        self.lasts_with(minutes, SCRAPE_SECONDS, act);
    }

    /// The server is in a state for so many minutes; `act` is what happens in so many seconds.
    pub(crate) fn lasts_with(&mut self, minutes: usize, seconds: usize, act: impl FnOnce()) {
        let before = Scrape::of(self.server);
        act();
        let after = Scrape::of(self.server);
        let steps_between = seconds / SCRAPE_SECONDS;
        self.states.push(Lasting {
            before,
            after,
            steps: minutes * STEPS_PER_MINUTE,
            steps_between,
        });
    }

    /// Prometheus does not scrape the server for so many minutes, because it is no target.
    pub(crate) fn is_no_target(&mut self, minutes: usize) {
        self.states.push(Lasting {
            before: Scrape::default(),
            after: Scrape::default(),
            steps: minutes * STEPS_PER_MINUTE,
            steps_between: 1,
        });
    }

    /// The last state did not turn out as it should.
    pub(crate) fn forget_last(&mut self) {
        self.states.pop();
    }

    /// No alert fires at the end of the first state, and exactly these at the end of the last one.
    #[track_caller]
    pub(crate) fn fires(&self, expected: &[&str]) {
        let series: BTreeSet<&String> =
            self.states.iter().flat_map(|state| state.after.samples.keys()).collect();
        assert!(series.len() > 50, "only {} series were scraped", series.len());
        let series: Vec<(String, String)> =
            series.into_iter().map(|name| (name.clone(), self.values(name))).collect();
        let first = self.states.first().expect("a state").steps;
        let all: usize = self.states.iter().map(|state| state.steps).sum();
        evaluate(&series, &[(first, Vec::new()), (all, expected.to_vec())]);
    }

    /// The values of a series, in the notation of promtool: `_` is a scrape without it.
    fn values(&self, series: &str) -> String {
        let mut values = Vec::new();
        // How much more a counter has than at its last scrape, because its growth was repeated.
        let mut ahead = 0.0;
        for state in &self.states {
            let Some(&after) = state.after.samples.get(series) else {
                values.resize(values.len() + state.steps, "_".to_owned());
                continue;
            };
            let before = state.before.samples.get(series).copied().unwrap_or(0.0);
            let growth = (after - before) / state.steps_between as f64;
            if state.after.counts(series) {
                let grown = |step: usize| before + ahead + growth * step as f64;
                values.extend((1..=state.steps).map(|step| grown(step).to_string()));
                ahead = grown(state.steps) - after;
            } else {
                values.resize(values.len() + state.steps, after.to_string());
            }
        }
        values.join(" ")
    }
}
