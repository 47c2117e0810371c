//! The response to Envoy.

use std::sync::Arc;

use http::{HeaderName, header};
use serde_json::Value as Json;
use tollgate::http::{content_fields, for_each_field, retry_after};
use tollgate::store::StoreErrorKind;
use tollgate::{Decision, Micros, RuleOutcome};
use tollgate_import::envoy::Unit;

use crate::app::state::ServerState;

/// Capacity for the fields of one limit, and those of a refusal.
const FIELDS_CAPACITY: usize = 8;

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) is_over: bool,
    /// One for each descriptor, in their order.
    pub(crate) statuses: Vec<Status>,
    /// Fields for the client.
    pub(crate) headers: Vec<HeaderField>,
    /// The body of a refusal.
    pub(crate) body: Vec<u8>,
    /// The id of the decision, if anything was counted.
    pub(crate) decision_id: Option<String>,
    /// The rule that refused, or else the one with the least left; `None` if none applied.
    pub(crate) binding: Option<BindingRule>,
    /// The metadata that files give to limits that are not exceeded.
    pub(crate) metadata: Option<Json>,
    /// Why the check was made without the shared store, if it was.
    pub(crate) degraded: Option<StoreErrorKind>,
}

/// The rule that decided, for the logs of the proxy.
#[derive(Debug)]
pub(crate) struct BindingRule {
    pub(crate) rule_id: Arc<str>,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
}

impl BindingRule {
    fn of(decision: &Decision) -> Option<Self> {
        let binding = decision.binding()?;
        let (limit, remaining) = (binding.outcome.limit, remaining(&binding));
        Some(Self { rule_id: Arc::clone(&binding.rule.id), limit, remaining })
    }
}

/// A header field for the client.
#[derive(Debug)]
pub(crate) struct HeaderField {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl HeaderField {
    fn new(name: &HeaderName, value: impl Into<String>) -> Self {
        Self { name: name.as_str().to_owned(), value: value.into() }
    }
}

/// The result of one descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) is_over: bool,
    pub(crate) limit: Option<CurrentLimit>,
    pub(crate) remaining: u32,
    /// Seconds until it resets.
    pub(crate) reset_after: Option<u64>,
}

/// The limit that applies to a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CurrentLimit {
    pub(crate) requests_per_unit: u32,
    /// `None` if its window is none of Envoy's units.
    pub(crate) unit: Option<Unit>,
    pub(crate) name: String,
}

impl Status {
    /// The status of a descriptor that no limit applies to.
    pub(super) const UNMATCHED: Self =
        Self { is_over: false, limit: None, remaining: 0, reset_after: None };
    /// The status of a descriptor whose limit is `unlimited`.
    pub(super) const UNLIMITED: Self = Self { remaining: u32::MAX, ..Self::UNMATCHED };

    /// The status of a descriptor by the outcome of a rule, which it may exceed.
    pub(super) fn of(
        decision: &Decision,
        outcome: &RuleOutcome<'_>,
        name: &str,
        is_exceeded: bool,
    ) -> Self {
        let figures = &outcome.outcome;
        let unit = Unit::ALL.into_iter().find(|unit| unit.window() == figures.window);
        Self {
            is_over: is_exceeded && !outcome.is_shadow(),
            limit: Some(CurrentLimit {
                requests_per_unit: narrow(figures.limit),
                unit,
                name: name.to_owned(),
            }),
            remaining: if is_exceeded { 0 } else { narrow(remaining(outcome)) },
            reset_after: Some(outcome.reset_after(decision.now()).as_secs_ceil()),
        }
    }
}

/// What is left of a rule's limit. Without its store, a node may count by a multiple of the limit; what
/// is reported is what is left of the limit itself.
fn remaining(outcome: &RuleOutcome<'_>) -> u64 {
    outcome.outcome.report.remaining.saturating_sub(outcome.outcome.surplus)
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Answer {
    /// The response to a decision with that id. If a refusal took what was left, `drained` is the
    /// decision about that. `refill` is how long it takes until peeks that refuse find something left.
    pub(super) fn new(
        app: &ServerState,
        decision: &Decision,
        drained: Option<&Decision>,
        statuses: Vec<Status>,
        is_over: bool,
        refill: Option<Micros>,
        id: Option<&str>,
    ) -> Self {
        let mut headers = Vec::with_capacity(FIELDS_CAPACITY);
        let drained = drained.filter(|drained| drained.is_allowed());
        for_each_field(drained.unwrap_or(decision), app.envoy.families, |name, value| {
            headers.push(HeaderField::new(name, value));
        });
        let mut body = Vec::new();
        if let Some(format) = app.envoy.refusal.as_ref().filter(|_| !decision.is_allowed()) {
            // Envoy has its own setting for the status.
            let (_, content_type) = format.write(decision, id.unwrap_or_default(), &mut body);
            headers.extend(
                content_fields(content_type).map(|(name, value)| {
                    HeaderField::new(&name, value.to_str().unwrap_or_default())
                }),
            );
        }
        // The fields of a refusal, for the two cases that are no refusal by `decision`.
        if is_over && (decision.is_allowed() || drained.is_some()) {
            let wait = retry_after(decision).or(refill.map(Micros::as_secs_ceil));
            headers
                .extend(wait.map(|wait| HeaderField::new(&header::RETRY_AFTER, wait.to_string())));
            headers.push(HeaderField::new(&header::CACHE_CONTROL, "no-store"));
        }
        let (decision_id, degraded) = (id.map(str::to_owned), decision.degraded());
        let binding = BindingRule::of(drained.unwrap_or(decision));
        Self { is_over, statuses, headers, body, decision_id, binding, metadata: None, degraded }
    }
}
