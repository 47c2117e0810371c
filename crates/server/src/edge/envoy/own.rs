//! Domains that are in no file: checked by the policy, with the entries of descriptors as attributes.
//!
//! A limit that a request carries is ignored here, as in envoyproxy/ratelimit: it belongs to a domain.

use tollgate::{Attribute, Attributes, CheckTarget, Decision, Micros, RuleOutcome};

use super::response::{Answer, Status};
use super::{Ask, AskedDescriptor};
use crate::app::state::ServerState;
use crate::observe::audit_log::RequestContext;

/// A descriptor as a request with attributes that rules can match.
pub(super) struct DescriptorRequest<'a, 'b> {
    pub(super) domain: &'a str,
    pub(super) asked: &'a AskedDescriptor<'b>,
}

impl DescriptorRequest<'_, '_> {
    /// The context for the audit log.
    pub(super) fn context(&self) -> RequestContext<'_> {
        RequestContext {
            endpoint: self.get(Attribute::Path),
            method: self.get(Attribute::Method),
            domain: Some(self.domain),
            entries: &self.asked.entries,
            ..RequestContext::of(self)
        }
    }

    fn entry(&self, names: &[&str]) -> Option<&str> {
        let mut entries = self.asked.entries.iter();
        entries.find(|(key, _)| names.contains(key)).map(|(_, value)| *value)
    }

    fn prefixed(&self, prefix: &str, name: &str) -> Option<&str> {
        let is_meant = |key: &str| key.strip_prefix(prefix).is_some_and(|rest| rest == name);
        self.asked.entries.iter().find(|(key, _)| is_meant(key)).map(|(_, value)| *value)
    }
}

/// The keys that Envoy's actions and most configurations use have their usual meaning; every key is
/// an attribute of that name, and `domain` is one too.
impl Attributes for DescriptorRequest<'_, '_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        match attribute {
            Attribute::UserId => self.entry(&["user_id", "user"]),
            Attribute::ApiKey => self.entry(&["api_key"]),
            Attribute::Ip => self.entry(&["remote_address", "ip"]),
            Attribute::Tenant => self.entry(&["tenant"]),
            Attribute::Path => self.entry(&["path", ":path"]),
            Attribute::Method => self.entry(&["method", ":method"]),
            Attribute::Host => self.entry(&["host", ":authority"]),
            Attribute::Tier => self.entry(&["tier"]),
            Attribute::Header(name) => self.prefixed("header:", name),
            Attribute::Claim(name) => self.prefixed("claim:", name),
            Attribute::Custom("domain") => Some(self.domain),
            Attribute::Custom(name) => self.entry(&[name]),
        }
    }

    fn cost(&self) -> u64 {
        self.asked.hits
    }
}

pub(super) async fn check(app: &ServerState, ask: &Ask<'_>) -> Answer {
    let view = |asked| DescriptorRequest { domain: ask.domain, asked };
    let views: Vec<DescriptorRequest<'_, '_>> = ask.descriptors.iter().map(view).collect();
    let checked = {
        let subjects: Vec<&dyn Attributes> =
            views.iter().map(|view| view as &dyn Attributes).collect();
        app.checker.check(
            CheckTarget::Views(&subjects),
            ask.recording(),
            // Of several descriptors, the audit log has the one that binds.
            |decision| {
                let binding = decision.binding().map_or(0, |binding| binding.subject);
                Some(views.get(binding)?.context())
            },
            |decision, id| {
                let statuses = statuses(decision, ask);
                let is_over =
                    !decision.is_allowed() || statuses.iter().any(|status| status.is_over);
                let id = id.map(|id| &**id);
                Answer::new(app, decision, None, statuses, is_over, refill(decision), id)
            },
        )
    };
    checked.await
}

/// The status of each descriptor.
fn statuses(decision: &Decision, ask: &Ask<'_>) -> Vec<Status> {
    let mut worst: Vec<Option<RuleOutcome<'_>>> = vec![None; ask.descriptors.len()];
    for outcome in decision.outcomes().filter(|outcome| !outcome.rule.is_candidate()) {
        if let Some(known) = worst.get_mut(outcome.subject)
            && known.as_ref().is_none_or(|known| is_worse(&outcome, known))
        {
            *known = Some(outcome);
        }
    }
    // A refusal without a limit (by a list, or because the store is unavailable) is about the whole
    // request.
    let is_refused_whole = !decision.is_allowed() && worst.iter().all(Option::is_none);
    let status = |worst: &Option<RuleOutcome<'_>>| match worst {
        Some(outcome) => {
            // A peek is over the limit when nothing is left.
            let figures = &outcome.outcome;
            let is_used_up = figures.cost == 0 && figures.report.remaining == 0;
            let is_exceeded = outcome.is_exceeded() || is_used_up;
            // Envoy shows names to clients, so an id is none, as in files.
            let name = outcome.rule.name.as_deref().unwrap_or_default();
            Status::of(decision, outcome, name, is_exceeded)
        }
        None => Status { is_over: is_refused_whole, ..Status::UNMATCHED },
    };
    worst.iter().map(status).collect()
}

/// Which of two rules is reported for a descriptor: one that refuses, or else the one with the least
/// left.
fn is_worse(new: &RuleOutcome<'_>, known: &RuleOutcome<'_>) -> bool {
    let rank = |outcome: &RuleOutcome<'_>| {
        let refuses = outcome.is_exceeded() && !outcome.is_shadow();
        (!refuses, outcome.is_shadow(), outcome.outcome.report.remaining)
    };
    rank(new) < rank(known)
}

/// How long it takes until all peeks find something left.
fn refill(decision: &Decision) -> Option<Micros> {
    let empty =
        |outcome: &RuleOutcome<'_>| outcome.outcome.report.remaining == 0 && !outcome.is_shadow();
    decision.outcomes().filter(empty).filter_map(|outcome| outcome.outcome.report.next_after).max()
}
