//! The proposal as a table, as a policy with its evidence, and as JSON.

use serde_json::json;
use tollgate::rules::parse_window;
use tollgate_simulate::recommend::{Recommendation, RecommendedRule, to_yaml};

use super::arguments::RecommendArguments;
use crate::failure::Failure;
use crate::table::{Column, table};
use crate::terminal::{count, grouped, moment, printable, printable_json, quota, share, span};

/// What holds for the figures, before the command that makes it so.
const ALONE: &str = "to refuse no more than that, apply them without other rules:";

/// Rules, and what they do to the traffic that they were made from.
pub(super) struct Proposal<'a> {
    pub(super) recommendation: &'a Recommendation,
    pub(super) sources: Vec<ProposalSource>,
    /// Whether times may begin anywhere.
    pub(super) is_trace: bool,
    pub(super) arguments: &'a RecommendArguments,
}

/// Where requests come from.
pub(super) struct ProposalSource {
    pub(super) name: String,
    pub(super) requests: u64,
    /// The format of a log, or what was left out.
    pub(super) about: String,
}

impl Proposal<'_> {
    fn window(&self) -> String {
        parse_window(&self.arguments.window).map_or_else(|text| text, |window| span(window.get()))
    }

    /// From when until when.
    fn lasted(&self) -> String {
        let Recommendation { first, last, .. } = *self.recommendation;
        let lasted = span(last.since(first).get());
        if self.is_trace {
            format!("{lasted} of traffic")
        } else {
            format!("{} to {}, {lasted}", moment(first), moment(last))
        }
    }

    fn result(&self) -> String {
        let Recommendation { requests, refused, clients, clients_refused, .. } =
            *self.recommendation;
        format!(
            "{} of {} refused ({}), {} of {} ({})",
            grouped(refused),
            count(requests, "request"),
            share(refused, requests),
            grouped(clients_refused),
            count(clients, "client"),
            share(clients_refused, clients),
        )
    }

    pub(super) fn to_table(&self) -> String {
        let clients = self.recommendation.clients;
        let window = self.window();
        let rows: Vec<[String; 10]> = self
            .recommendation
            .rules
            .iter()
            .map(|rule| {
                [
                    rule.rule_id.clone(),
                    rule.name.clone(),
                    quota(rule.limit, &window, rule.limit),
                    grouped(rule.needed),
                    grouped(rule.busiest),
                    grouped(rule.requests),
                    grouped(rule.refused),
                    share(rule.refused, rule.requests),
                    grouped(rule.clients_refused),
                    share(rule.clients_refused, clients),
                ]
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
        for ProposalSource { name, requests, about } in &self.sources {
            let requests = count(*requests, "request");
            text += &format!("{}: {requests} ({about})\n", printable(name));
        }
        let RecommendArguments { headroom, refuse_at_most, output, .. } = self.arguments;
        text += &format!(
            "{}\nheadroom {headroom}, at most {refuse_at_most} of requests refused\n\n{}\n",
            self.lasted(),
            table(columns, &rows)
        );
        text += &format!("replayed: {}\n", self.result());
        let file = output.as_ref().map(|file| printable(&file.display().to_string()));
        if let Some(file) = &file {
            text += &format!("written to {file}\n");
        }
        text += &format!(
            "{ALONE} tollgate rules apply --prune --file {}\n",
            file.as_deref().unwrap_or("FILE")
        );
        text
    }

    /// The policy, with what speaks for each limit.
    pub(super) fn to_yaml(&self) -> String {
        let RecommendArguments { headroom, refuse_at_most, .. } = self.arguments;
        let Recommendation { rules, requests, clients, .. } = self.recommendation;
        let sources: Vec<String> = self
            .sources
            .iter()
            .map(|source| printable(&source.name).replace(['\u{85}', '\u{2028}', '\u{2029}'], " "))
            .collect();
        let mut text = format!(
            "# Proposed by tollgate recommend, from {} of {}:\n",
            count(*requests, "request"),
            count(*clients, "client")
        );
        for source in sources {
            text += &format!("#   {source}\n");
        }
        text += &format!(
            "# {}.\n# Headroom {headroom}; at most {refuse_at_most} of requests were to be refused.\n\
             # Replayed on this traffic: {}.\n\
             # These figures are of these rules alone. So that no other rule stays beside them:\n\
             #   tollgate rules apply --prune --file THIS_FILE\n",
            self.lasted(),
            self.result()
        );
        text + &to_yaml(rules, |rule| self.evidence(rule))
    }

    /// Why the limit is what it is.
    fn evidence(&self, rule: &RecommendedRule) -> Vec<String> {
        let clients = self.recommendation.clients;
        vec![
            format!(
                "Needed {} / {} by nearly all of {}, {} by the busiest client.",
                grouped(rule.needed),
                self.window(),
                count(rule.requests, "request"),
                grouped(rule.busiest),
            ),
            format!(
                "Refuses {} of them ({}) and touches {} of {} ({}).",
                grouped(rule.refused),
                share(rule.refused, rule.requests),
                grouped(rule.clients_refused),
                count(clients, "client"),
                share(rule.clients_refused, clients),
            ),
        ]
    }

    pub(super) fn to_json(&self) -> Result<String, Failure> {
        let Recommendation { rules, requests, refused, clients, clients_refused, .. } =
            self.recommendation;
        let proposal = json!({
            "requests": requests,
            "refused": refused,
            "clients": clients,
            "clients_refused": clients_refused,
            "rules": rules,
        });
        serde_json::to_string(&proposal)
            .map(|json| printable_json(&json))
            .map_err(|error| Failure::usage(format!("cannot write the proposal: {error}")))
    }
}
