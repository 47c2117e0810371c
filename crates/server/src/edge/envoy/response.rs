//! The response to Envoy.

use http::{HeaderName, header};
use tollgate::http::{PROBLEM_JSON, for_each_field, refusal_body, retry_after};
use tollgate::store::StoreErrorKind;
use tollgate::{Decision, Micros, RuleOutcome, Timestamp};
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
    /// Why the check was made without the shared store, if it was.
    pub(crate) degraded: Option<StoreErrorKind>,
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

    /// The status of a descriptor by the outcome of a rule.
    pub(super) fn of(outcome: &RuleOutcome<'_>, name: &str, now: Timestamp) -> Self {
        let figures = &outcome.outcome;
        // A peek is over the limit when nothing is left.
        let is_exceeded =
            outcome.is_exceeded() || (figures.cost == 0 && figures.report.remaining == 0);
        let unit = Unit::ALL.into_iter().find(|unit| unit.window() == figures.window);
        Self {
            is_over: is_exceeded && !outcome.is_shadow(),
            limit: Some(CurrentLimit {
                requests_per_unit: narrow(figures.limit),
                unit,
                name: name.to_owned(),
            }),
            remaining: if is_exceeded { 0 } else { narrow(figures.report.remaining) },
            reset_after: Some(outcome.reset_after(now).as_secs_ceil()),
        }
    }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Answer {
    /// The response to a decision with that id. If a refusal took what was left, `drained` is the
    /// decision about that.
    pub(super) fn new(
        app: &ServerState,
        decision: &Decision,
        drained: Option<&Decision>,
        statuses: Vec<Status>,
        id: Option<&str>,
    ) -> Self {
        let is_over = !decision.is_allowed() || statuses.iter().any(|status| status.is_over);
        let mut headers = Vec::with_capacity(FIELDS_CAPACITY);
        let drained = drained.filter(|drained| drained.is_allowed());
        for_each_field(drained.unwrap_or(decision), app.families, |name, value| {
            headers.push(HeaderField::new(name, value));
        });
        let mut body = Vec::new();
        if !decision.is_allowed() {
            refusal_body(decision, id.unwrap_or_default(), &mut body);
            headers.push(HeaderField::new(&header::CONTENT_TYPE, PROBLEM_JSON));
        }
        // The fields of a refusal, for the two cases that are no refusal by `decision`.
        if is_over && (decision.is_allowed() || drained.is_some()) {
            let wait = retry_after(decision).or_else(|| refill(decision));
            headers
                .extend(wait.map(|wait| HeaderField::new(&header::RETRY_AFTER, wait.to_string())));
            headers.push(HeaderField::new(&header::CACHE_CONTROL, "no-store"));
        }
        let (decision_id, degraded) = (id.map(str::to_owned), decision.degraded());
        Self { is_over, statuses, headers, body, decision_id, degraded }
    }
}

/// When a peek may find something left, in seconds.
fn refill(decision: &Decision) -> Option<u64> {
    let empty =
        |outcome: &RuleOutcome<'_>| outcome.outcome.report.remaining == 0 && !outcome.is_shadow();
    let waits = decision.outcomes().filter(empty);
    waits.filter_map(|outcome| outcome.outcome.report.next_after).max().map(Micros::as_secs_ceil)
}
