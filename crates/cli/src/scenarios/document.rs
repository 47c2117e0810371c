//! The document of `tollgate test`: scenarios, their steps, and where each stands in the text.

use tollgate::rules::parse_time;
use tollgate::{Micros, Timestamp};
use tollgate_document::{Decode, Field, Fields, Node, Position, Scope};

use super::expectation::Expectation;
use super::lasting::Lasting;
use super::request::ScenarioRequest;

/// Most requests of one step.
const MAX_TIMES: u64 = 100_000;

/// A whole file.
#[derive(Debug)]
pub(super) struct ScenarioDocument {
    /// The policy file, from where this file is.
    pub(super) policy: Option<String>,
    pub(super) scenarios: Vec<Scenario>,
}

/// Requests in order, with counters that nothing has used before.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) position: Position,
    /// When it begins.
    pub(super) start: Timestamp,
    pub(super) request: ScenarioRequest,
    pub(super) steps: Vec<Step>,
}

/// One request, or the same one several times.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) position: Position,
    pub(super) time: StepTime,
    pub(super) request: ScenarioRequest,
    pub(super) times: u64,
    /// From one request to the next.
    pub(super) every: Micros,
    pub(super) expect: Option<Expectation>,
}

/// When a step begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum StepTime {
    /// So long after the beginning of the scenario.
    At(Micros),
    /// So long after the last request.
    After(Micros),
}

/// A moment, as an RFC 3339 time.
struct Moment(Timestamp);

impl Decode for Moment {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let time = node.as_str().and_then(parse_time);
        if time.is_none() {
            let advice = "write it like 2026-11-15T09:00:00Z";
            scope.expected(node, "an RFC 3339 time", advice);
        }
        time.map(Self)
    }
}

const fn field(name: &'static str, about: &'static [&'static str]) -> Field {
    Field { name, about, range: None, pattern: None }
}

const FILE: [Field; 2] = [
    field("policy", &["the policy file, from where this file is"]),
    field("scenarios", &["a list of scenarios, each with name and steps"]),
];

const SCENARIO: [Field; 4] = [
    field("name", &["what it shows"]),
    field("start", &["when it begins, like 2026-11-15T09:00:00Z"]),
    field("request", &["what all its requests have"]),
    field("steps", &["a list of requests, and what is expected of them"]),
];

const STEP: [Field; 6] = [
    field("at", &["when, from the beginning of the scenario"]),
    field("after", &["when, from the last request"]),
    field("request", &["the request"]),
    Field { range: Some(1..=MAX_TIMES), ..field("times", &["how often"]) },
    field("every", &["from one request to the next"]),
    field("expect", &["what is expected"]),
];

/// The beginning of a scenario that has none of its own: also the beginning of each window.
const START: Timestamp = Timestamp::from_secs(1_767_225_600);

impl Decode for ScenarioDocument {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let mut fields = Fields::open(node, &FILE, scope)?;
        let policy = fields.optional("policy");
        let scenarios: Vec<Scenario> = fields.required("scenarios")?;
        Some(Self { policy, scenarios })
    }
}

impl Decode for Scenario {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let mut fields = Fields::open(node, &SCENARIO, scope)?;
        let start = fields.optional("start").map_or(START, |moment: Moment| moment.0);
        let request = fields.optional("request").unwrap_or_default();
        let name = fields.required("name");
        let steps: Option<Vec<Step>> = fields.required("steps");
        if steps.as_ref().is_some_and(Vec::is_empty) && fields.get("steps").is_some() {
            let advice = "add a step, as in {times: 5, expect: allowed}";
            fields.problem("steps", node.position, "there are no steps", advice);
        }
        Some(Self { name: name?, position: node.position, start, request, steps: steps? })
    }
}

impl Decode for Step {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let before = scope.found();
        let mut fields = Fields::open(node, &STEP, scope)?;
        let at: Option<Lasting> = fields.optional("at");
        let after: Option<Lasting> = fields.optional("after");
        if at.is_some() && after.is_some() {
            let advice = "give one of at and after";
            fields.problem("after", node.position, "at is given too", advice);
        }
        let zero = Lasting(Micros::ZERO);
        let step = Self {
            position: node.position,
            time: at.map_or(StepTime::After(after.unwrap_or(zero).0), |at| StepTime::At(at.0)),
            request: fields.optional("request").unwrap_or_default(),
            times: fields.optional("times").unwrap_or(1),
            every: fields.optional("every").unwrap_or(zero).0,
            expect: fields.optional("expect"),
        };
        (scope.found() == before).then_some(step)
    }
}
