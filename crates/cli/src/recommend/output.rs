//! The proposal as a table, as a policy with its evidence, and as JSON.

use serde_json::json;
use tollgate::rules::parse_window;

use super::arguments::RecommendArguments;
use super::candidate::{Candidate, to_yaml};
use crate::failure::Failure;
use crate::simulate::{RuleTally, Tally};
use crate::table::{Column, table};
use crate::terminal::{count, grouped, moment, printable, quota, share, span};
use crate::traffic::Traffic;

/// Rules, and what they do to the traffic that they were made from.
pub(super) struct Proposal<'a> {
    pub(super) candidates: &'a [Candidate],
    pub(super) tally: &'a Tally<'a>,
    pub(super) traffic: &'a Traffic,
    pub(super) arguments: &'a RecommendArguments,
}

impl Proposal<'_> {
    fn tally_of(&self, candidate: &Candidate) -> Option<&RuleTally<'_>> {
        self.tally.rules.iter().find(|rule| rule.rule_id == candidate.rule_id)
    }

    fn window(&self) -> String {
        parse_window(&self.arguments.window).map_or_else(|text| text, |window| span(window.get()))
    }

    /// From when until when.
    fn lasted(&self) -> String {
        let course = &self.tally.course;
        let lasted = span(course.last.since(course.first).get());
        if self.traffic.is_trace() {
            format!("{lasted} of traffic")
        } else {
            format!("{} to {}, {lasted}", moment(course.first), moment(course.last))
        }
    }

    fn result(&self) -> String {
        let tally = self.tally;
        let (clients, refused) = (tally.clients.len() as u64, tally.clients_refused());
        format!(
            "{} of {} refused ({}), {} of {} ({})",
            grouped(tally.refused),
            count(tally.requests, "request"),
            share(tally.refused, tally.requests),
            grouped(refused),
            count(clients, "client"),
            share(refused, clients),
        )
    }

    pub(super) fn to_table(&self) -> String {
        let clients = self.tally.clients.len() as u64;
        let window = self.window();
        let rows: Vec<[String; 10]> = self
            .candidates
            .iter()
            .filter_map(|candidate| {
                let tally = self.tally_of(candidate)?;
                let exceeding = tally.clients_exceeding.len() as u64;
                Some([
                    candidate.rule_id.clone(),
                    candidate.name.clone(),
                    quota(candidate.limit, &window, candidate.limit),
                    grouped(candidate.needed),
                    grouped(candidate.busiest),
                    grouped(tally.applied),
                    grouped(tally.exceeded),
                    share(tally.exceeded, tally.applied),
                    grouped(exceeding),
                    share(exceeding, clients),
                ])
            })
            .collect();
        let columns = [
            Column::Text("rule"),
            Column::Text("for"),
            Column::Figure("limit"),
            Column::Figure("needed"),
            Column::Figure("busiest"),
            Column::Figure("requests"),
            Column::Figure("refused"),
            Column::Figure("share"),
            Column::Figure("clients"),
            Column::Figure("share"),
        ];
        let mut text = String::new();
        for source in self.traffic.sources() {
            let (requests, format) = (count(source.requests, "request"), source.format.name());
            text += &format!("{}: {requests} ({format})\n", printable(&source.name));
        }
        let RecommendArguments { headroom, refuse_at_most, output, .. } = self.arguments;
        text += &format!(
            "{}\nheadroom {headroom}, at most {refuse_at_most} of requests refused\n\n{}\n",
            self.lasted(),
            table(columns, &rows)
        );
        text += &format!("replayed: {}\n", self.result());
        if let Some(file) = output {
            text += &format!("written to {}\n", printable(&file.display().to_string()));
        }
        text
    }

    /// The policy, with what speaks for each limit.
    pub(super) fn to_yaml(&self) -> String {
        let RecommendArguments { headroom, refuse_at_most, window, .. } = self.arguments;
        let sources: Vec<String> = self
            .traffic
            .sources()
            .iter()
            .map(|source| printable(&source.name).replace(['\u{85}', '\u{2028}', '\u{2029}'], " "))
            .collect();
        let mut text = format!(
            "# Proposed by tollgate recommend, from {} of {}:\n",
            count(self.tally.requests, "request"),
            count(self.tally.clients.len() as u64, "client")
        );
        for source in sources {
            text += &format!("#   {source}\n");
        }
        text += &format!(
            "# {}.\n# Headroom {headroom}; at most {refuse_at_most} of requests were to be refused.\n\
             # Replayed on this traffic: {}.\n",
            self.lasted(),
            self.result()
        );
        text + &to_yaml(self.candidates, window, |candidate| self.evidence(candidate))
    }

    /// Why the limit is what it is.
    fn evidence(&self, candidate: &Candidate) -> Vec<String> {
        let Some(tally) = self.tally_of(candidate) else { return Vec::new() };
        let clients = self.tally.clients.len() as u64;
        let exceeding = tally.clients_exceeding.len() as u64;
        vec![
            format!(
                "Needed {} / {} by nearly all of {}, {} by the busiest client.",
                grouped(candidate.needed),
                self.window(),
                count(tally.applied, "request"),
                grouped(candidate.busiest),
            ),
            format!(
                "Refuses {} of them ({}) and touches {} of {} ({}).",
                grouped(tally.exceeded),
                share(tally.exceeded, tally.applied),
                grouped(exceeding),
                count(clients, "client"),
                share(exceeding, clients),
            ),
        ]
    }

    pub(super) fn to_json(&self) -> Result<String, Failure> {
        let rules: Vec<serde_json::Value> = self
            .candidates
            .iter()
            .filter_map(|candidate| {
                let tally = self.tally_of(candidate)?;
                Some(json!({
                    "rule_id": candidate.rule_id,
                    "name": candidate.name,
                    "limit": candidate.limit,
                    "window": self.arguments.window,
                    "algorithm": candidate.algorithm().name(),
                    "identifier_type": candidate.identifier,
                    "endpoint": candidate.endpoint,
                    "methods": candidate.methods,
                    "tier": candidate.tier,
                    "needed": candidate.needed,
                    "busiest": candidate.busiest,
                    "requests": tally.applied,
                    "refused": tally.exceeded,
                    "clients_refused": tally.clients_exceeding.len(),
                }))
            })
            .collect();
        let proposal = json!({
            "requests": self.tally.requests,
            "refused": self.tally.refused,
            "clients": self.tally.clients.len(),
            "clients_refused": self.tally.clients_refused(),
            "rules": rules,
        });
        serde_json::to_string(&proposal)
            .map_err(|error| Failure::usage(format!("cannot write the proposal: {error}")))
    }
}
