//! One decision for the log: what is recorded of a request and its decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate::http::{remaining, retry_after, retry_after_rule};
use tollgate::{Attributes, Decision, Refusal, Timestamp};
use tollgate_api::RecordedRequest;
use tollgate_catalog::{DecisionAction, LoggedDecision};
use utoipa::ToSchema;

use super::log::DecisionEntry;
use super::{client_identity, is_held};
use crate::check::decision_id::{IdText, node_in};
use crate::edge::http::wire::response::{reason, refuser};
use crate::edge::http::wire::time::rfc_3339_exact;

/// How many shadow rules and candidates that would have refused a request are recorded, at most.
const MAX_SHADOWS: usize = 8;

/// The ids of the shadow rules and candidates that would have refused a request, each once; those that are recorded.
pub(crate) fn would_refuse_by(decision: &Decision) -> Vec<&Arc<str>> {
    let mut rules: Vec<&Arc<str>> = Vec::new();
    for rule_id in decision.all_that_would_refuse().map(|it| &it.rule.id) {
        if rules.len() >= MAX_SHADOWS {
            break;
        }
        if !rules.contains(&rule_id) {
            rules.push(rule_id);
        }
    }
    rules
}

/// What is recorded of a request, besides its decision.
pub(crate) struct RequestContext<'a> {
    /// The request that was checked.
    pub(crate) request: &'a dyn Attributes,
    /// The path of the request.
    pub(crate) endpoint: Option<&'a str>,
    /// The HTTP method.
    pub(crate) method: Option<&'a str>,
    /// The domain of a request of Envoy.
    pub(crate) domain: Option<&'a str>,
    /// The entries of a descriptor of Envoy.
    pub(crate) entries: &'a [(&'a str, &'a str)],
    /// The rule of a check by rule.
    pub(crate) asked_rule: Option<&'a str>,
    /// Whether the policy decides, not a file of envoyproxy/ratelimit.
    pub(crate) is_by_policy: bool,
}

impl<'a> RequestContext<'a> {
    /// A request of which nothing else is known.
    pub(crate) const fn of(request: &'a dyn Attributes) -> Self {
        Self {
            request,
            endpoint: None,
            method: None,
            domain: None,
            entries: &[],
            asked_rule: None,
            is_by_policy: true,
        }
    }
}

impl RequestContext<'_> {
    /// The path as it is recorded, without the query, which may contain secrets.
    pub(super) fn path(&self) -> Option<String> {
        let path = self.endpoint?.split(['?', '#']).next().unwrap_or_default();
        Some(client_identity::shortened(path).to_owned())
    }
}

/// A decision as it is recorded.
#[derive(Debug)]
pub(super) struct DecisionEvent {
    pub(super) at: Timestamp,
    pub(super) id: IdText,
    pub(super) action: DecisionAction,
    pub(super) rule_id: Option<Arc<str>>,
    pub(super) client: String,
    pub(super) tenant: Option<String>,
    pub(super) details: DecisionDetails,
}

/// The fields of a recorded decision that it is not searched by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(default)]
pub(crate) struct DecisionDetails {
    /// Why it was refused, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The path of the request, without its query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) endpoint: Option<String>,
    /// The HTTP method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    /// The domain, if Envoy asked: of a file of envoyproxy/ratelimit, or any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) domain: Option<String>,
    /// The tier that the client was in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<String>,
    /// The cost of the request under the rule that decided.
    pub(super) cost: u64,
    /// The limit of that rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u64>,
    /// What was left of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remaining: Option<u64>,
    /// If it was refused, or would have been: the seconds after which the same request would have
    /// passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after: Option<u64>,
    /// Why the check was made without the shared store, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) degraded: Option<String>,
    /// Further shadow rules and candidates that would have refused it, besides `rule_id`; up to 7.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) also_would_refuse: Vec<String>,
    /// All identifiers of the client. API keys and headers are shown as the beginning of their digest.
    pub(super) identifiers: BTreeMap<String, String>,
}

impl DecisionEntry {
    /// What it tells of the request.
    pub(crate) fn into_request(self) -> RecordedRequest {
        let DecisionDetails { method, endpoint, identifiers, .. } = self.details;
        RecordedRequest { method, endpoint, identifiers, ..RecordedRequest::default() }
    }
}

impl DecisionEvent {
    pub(super) fn new(decision: &Decision, id: IdText, context: &RequestContext<'_>) -> Self {
        let refusal = decision.refusal();
        // A shadow rule is named only if no other rule refused.
        let watching = decision.would_refuse().filter(|_| refusal.is_none());
        let binding = watching.or_else(|| decision.binding());
        let figures = binding.as_ref().map(|binding| &binding.outcome);
        let rules = decision.policy().rules();
        let rule_id = binding.as_ref().map(|binding| Arc::clone(&binding.rule.id));
        let rule_id = rule_id.or_else(|| refuser(decision).map(Arc::from));
        let rule = rule_id.as_ref().and_then(|rule_id| rules.find_counter(rule_id));
        let identifiers =
            client_identity::identifiers(context, rule.map_or(&[], |rule| &rule.identifiers));
        Self {
            at: decision.now(),
            id,
            action: match refusal {
                Some(Refusal::Denied | Refusal::Banned) => DecisionAction::Denied,
                Some(_) => DecisionAction::Refused,
                None if watching.is_some() => DecisionAction::WouldRefuse,
                None if is_held(decision) => DecisionAction::Throttled,
                None => DecisionAction::Allowed,
            },
            rule_id,
            client: client_identity::client(&identifiers),
            tenant: identifiers.get("tenant").cloned(),
            details: DecisionDetails {
                reason: refusal.map(|refusal| reason(refusal).name().to_owned()),
                endpoint: context.path(),
                method: context.method.map(|method| client_identity::shortened(method).to_owned()),
                domain: context.domain.map(|it| client_identity::shortened(it).to_owned()),
                tier: decision.tier().map(|tier| client_identity::shortened(tier).to_owned()),
                cost: figures.map_or_else(|| context.request.cost(), |figures| figures.cost),
                limit: figures.map(|figures| figures.limit),
                remaining: figures.map(remaining),
                retry_after: match &watching {
                    Some(watching) => retry_after_rule(&watching.outcome),
                    None => refusal.and_then(|_| retry_after(decision)),
                },
                degraded: decision.degraded().map(|why| why.to_string()),
                also_would_refuse: match &watching {
                    Some(_) => {
                        let all = would_refuse_by(decision);
                        all.iter().skip(1).map(|rule_id| String::from(&***rule_id)).collect()
                    }
                    None => Vec::new(),
                },
                identifiers,
            },
        }
    }

    /// The note as an entry of the API.
    pub(super) fn to_entry(&self) -> DecisionEntry {
        DecisionEntry {
            decision_id: (*self.id).to_owned(),
            node: node_in(&self.id).map(str::to_owned),
            at: rfc_3339_exact(self.at),
            action: self.action.name().into(),
            rule_id: self.rule_id.as_deref().map(str::to_owned),
            client: self.client.clone(),
            tenant: self.tenant.clone(),
            details: self.details.clone(),
        }
    }

    /// The note as a row of the log.
    pub(super) fn to_record(&self) -> LoggedDecision {
        LoggedDecision {
            at: self.at,
            decision_id: (*self.id).to_owned(),
            action: self.action,
            rule_id: self.rule_id.as_deref().map(str::to_owned),
            client: self.client.clone(),
            tenant: self.tenant.clone(),
            // Text and numbers always serialise.
            body: serde_json::to_string(&self.details).unwrap_or_default(),
        }
    }
}
