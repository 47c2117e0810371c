//! `--report`: one HTML file with charts and tables, which needs no script and makes no request.

mod accuracy;
mod breakdown;
mod markup;
mod page;
mod tables;

use tollgate::rules::Rule;

use self::breakdown::Breakdown;
use super::compare::AlgorithmRow;
use super::tally::Tally;
use crate::outcome::Outcome;
use crate::traffic::Traffic;

/// All that the report shows.
pub(super) struct HtmlReport<'a> {
    /// The name of the policy.
    pub(super) policy: &'a str,
    pub(super) rules: &'a [Rule],
    pub(super) traffic: &'a Traffic,
    pub(super) tally: &'a Tally<'a>,
    /// One for each request.
    pub(super) outcomes: &'a [Outcome],
    pub(super) algorithms: &'a [AlgorithmRow],
    /// What makes the result doubtful.
    pub(super) doubt: Option<String>,
    /// How many clients and endpoints to list.
    pub(super) top: usize,
}

impl HtmlReport<'_> {
    /// The whole file.
    pub(super) fn to_html(&self) -> String {
        let breakdown = Breakdown::new(self.traffic, self.tally, self.outcomes, self.top);
        page::render(self, &breakdown)
    }
}
