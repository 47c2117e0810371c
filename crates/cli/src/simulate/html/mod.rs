//! `--report`: one HTML file with charts and tables, which needs no script and makes no request.

mod accuracy;
mod breakdown;
mod markup;
mod page;
mod tables;

use tollgate::rules::Rule;
use tollgate::{Decision, Micros};

use self::breakdown::Breakdown;
use super::compare::AlgorithmRow;
use super::tally::Tally;
use crate::traffic::Traffic;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// Allowed, with a delay.
    Throttled,
    Refused,
}

impl Verdict {
    pub(super) fn of(decision: &Decision) -> Self {
        match decision.is_allowed() {
            false => Self::Refused,
            true if decision.delay().is_some_and(|delay| delay > Micros::ZERO) => Self::Throttled,
            true => Self::Allowed,
        }
    }
}

/// All that the report shows.
pub(super) struct HtmlReport<'a> {
    /// The name of the policy.
    pub(super) policy: &'a str,
    pub(super) rules: &'a [Rule],
    pub(super) traffic: &'a Traffic,
    pub(super) tally: &'a Tally<'a>,
    /// One for each request.
    pub(super) verdicts: &'a [Verdict],
    pub(super) algorithms: &'a [AlgorithmRow],
    /// What makes the result doubtful.
    pub(super) doubt: Option<String>,
    /// How many clients and paths to list.
    pub(super) top: usize,
}

impl HtmlReport<'_> {
    /// The whole file.
    pub(super) fn to_html(&self) -> String {
        let breakdown = Breakdown::new(self.traffic, self.tally, self.verdicts, self.top);
        page::render(self, &breakdown)
    }
}
