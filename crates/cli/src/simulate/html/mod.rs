//! `--report`: one HTML file with charts and tables, which needs no script and makes no request.

mod accuracy;
mod markup;
mod page;
mod tables;

use tollgate::rules::Rule;
use tollgate_simulate::traffic::Traffic;
use tollgate_simulate::{AlgorithmFigures, Breakdown, RequestResult, Tally};

/// All that the report shows.
pub(super) struct HtmlReport<'a> {
    /// The name of the policy.
    pub(super) policy: &'a str,
    pub(super) rules: &'a [Rule],
    pub(super) traffic: &'a Traffic,
    pub(super) tally: &'a Tally<'a>,
    /// One for each request.
    pub(super) results: &'a [RequestResult],
    pub(super) algorithms: &'a [AlgorithmFigures],
    /// What makes the result doubtful.
    pub(super) doubt: Option<String>,
    /// How many clients and endpoints to list.
    pub(super) top: usize,
}

impl HtmlReport<'_> {
    /// The whole file.
    pub(super) fn to_html(&self) -> String {
        let breakdown = Breakdown::new(self.traffic, self.tally, self.results, self.top);
        page::render(self, &breakdown)
    }
}
