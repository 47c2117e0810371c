//! The fixture of these tests: a limiter with a manual clock, and requests and decisions as text.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::test_runner::Config;
use tollgate::store::StoreError;
use tollgate::{
    Attribute, Attributes, CheckTarget, Decision, DecisionReason, Limiter, ManualClock, Micros,
    Peek, Policy, Refusal, Request, RuleOutcome, SoftState, Store, Timestamp,
};

/// Midnight, where windows of every usual length begin.
pub(crate) const MIDNIGHT: Timestamp = Timestamp::from_secs(1_700_006_400);

/// A limiter and the decisions that it made.
pub(crate) struct Scene<S> {
    pub(crate) limiter: Limiter<S, ManualClock>,
    decisions: Vec<Decision>,
}

impl<S: Store> Scene<S> {
    pub(crate) fn new(policy: &str, store: S) -> Self {
        let limiter = Limiter::builder().policy(parse(policy)).store(store);
        let limiter = limiter.clock(ManualClock::at(MIDNIGHT)).build();
        Self { limiter, decisions: Vec::new() }
    }

    /// Does one step and returns its result.
    ///
    /// A step is a time in milliseconds after midnight, a verb and a request: `1500 check GET
    /// /orders user_id=alice cost=2`. Verbs are `check` (with several requests, parted by `&`, for
    /// one with several subjects), `peek`, `rule ID`, `reset`, `credit`, the same for one rule with
    /// `reset-rule ID` and `credit-rule ID`, and `refund`, which refunds the newest decision, or the
    /// `oldest`.
    pub(crate) fn step(&mut self, step: &str) -> String {
        let (time, rest) = step.split_once(' ').expect("a time");
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let millis = time.parse().expect("milliseconds");
        self.limiter.clock().set(MIDNIGHT.plus(Micros::from_millis(millis)));
        match verb {
            "check" => {
                let requests: Vec<Request<'_>> = rest.split('&').map(request).collect();
                let subjects: Vec<&dyn Attributes> =
                    requests.iter().map(|request| request as &dyn Attributes).collect();
                self.keep(at_once(self.limiter.check(CheckTarget::Views(&subjects))))
            }
            "peek" => render(&at_once(self.limiter.check(&Peek(&request(rest))))),
            "rule" => {
                let (rule, rest) = rest.split_once(' ').expect("a rule");
                self.keep(at_once(self.limiter.check(CheckTarget::Rule(rule, &request(rest)))))
            }
            "refund" => {
                let at = if rest == "oldest" { 0 } else { self.decisions.len() - 1 };
                match at_once(self.limiter.refund(self.decisions.remove(at))) {
                    Ok(()) => "done".to_owned(),
                    Err(error) => error.to_string(),
                }
            }
            "reset" => changed(at_once(self.limiter.reset(&request(rest)))),
            "credit" => changed(at_once(self.limiter.credit(&request(rest)))),
            "reset-rule" => {
                let (rule, rest) = rest.split_once(' ').expect("a rule");
                changed(at_once(self.limiter.reset(CheckTarget::Rule(rule, &request(rest)))))
            }
            "credit-rule" => {
                let (rule, rest) = rest.split_once(' ').expect("a rule");
                changed(at_once(self.limiter.credit(CheckTarget::Rule(rule, &request(rest)))))
            }
            _ => panic!("no verb: {verb}"),
        }
    }

    fn keep(&mut self, decision: Decision) -> String {
        let text = render(&decision);
        self.decisions.push(decision);
        text
    }
}

pub(crate) fn parse(policy: &str) -> Policy {
    Policy::from_text(policy).unwrap_or_else(|problems| {
        let problems = problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        panic!("{}\n{policy}", problems.join("\n"))
    })
}

fn changed(counters: Result<usize, StoreError>) -> String {
    match counters {
        Ok(counters) => format!("{counters} changed"),
        Err(error) => error.to_string(),
    }
}

/// A request: `POST /orders user_id=u1 header:x-region=eu cost=3`.
pub(crate) fn request(text: &str) -> Request<'_> {
    text.split_whitespace().fold(Request::new(), |request, word| match word.split_once('=') {
        _ if word.starts_with('/') => request.path(word),
        None => request.method(word),
        Some(("user_id", value)) => request.user_id(value),
        Some(("api_key", value)) => request.api_key(value),
        Some(("ip", value)) => request.ip(value),
        Some(("tenant", value)) => request.tenant(value),
        Some(("host", value)) => request.host(value),
        Some(("tier", value)) => request.tier(value),
        Some(("cost", value)) => request.cost(value.parse().expect("a cost")),
        Some((name, value)) => match name.split_once(':') {
            Some(("header", name)) => request.with(Attribute::Header(name), value),
            Some(("claim", name)) => request.with(Attribute::Claim(name), value),
            Some(_) | None => request.with(Attribute::Custom(name), value),
        },
    })
}

/// A decision in a few words: `allowed by per_user, 3 left`.
pub(crate) fn render(decision: &Decision) -> String {
    let because = |reason: &Option<_>| reason.as_deref().unwrap_or("no reason").to_owned();
    let mut words = match decision.reason() {
        DecisionReason::NoRule if !decision.is_allowed() => vec!["denied: no rule".to_owned()],
        DecisionReason::NoRule => vec!["no rule".to_owned()],
        DecisionReason::AllowListed { reason } => {
            vec![format!("never limited: {}", because(reason))]
        }
        DecisionReason::DenyListed { reason, .. } => vec![format!("denied: {}", because(reason))],
        DecisionReason::MissingIdentifier { .. } => vec!["denied: identifier missing".to_owned()],
        DecisionReason::Banned { rule, .. } => {
            let rule = decision.policy().rules().get(*rule).map(|rule| rule.id.to_string());
            vec![format!("banned by {}", rule.unwrap_or_default())]
        }
        DecisionReason::StoreUnavailable { .. } => vec!["refused: store unavailable".to_owned()],
        DecisionReason::Rules => match decision.binding() {
            Some(binding) => vec![
                format!("{} by {}", verdict(decision), binding.rule.id),
                format!("{} left", binding.outcome.remaining()),
            ],
            None => vec![verdict(decision).to_owned()],
        },
    };
    let is_banned = decision.refusal() == Some(Refusal::Banned);
    if (decision.binding().is_some() || is_banned) && !decision.is_allowed() {
        words.push(match decision.retry_after() {
            Some(wait) => format!("retry in {} ms", wait.as_millis_ceil()),
            None => "never".to_owned(),
        });
    }
    if let Some(delay) = decision.delay() {
        words.push(format!("held {} ms", delay.as_millis_ceil()));
    }
    match decision.state() {
        SoftState::Normal => {}
        SoftState::Warning => words.push("warned".to_owned()),
        SoftState::Throttled => words.push("throttled".to_owned()),
    }
    let watching =
        decision.outcomes().filter(|outcome| outcome.is_shadow() && outcome.is_exceeded());
    words.extend(watching.map(|RuleOutcome { rule, .. }| format!("{} would refuse", rule.id)));
    words.extend(decision.degraded().map(|_| "degraded".to_owned()));
    words.join(", ")
}

fn verdict(decision: &Decision) -> &'static str {
    if decision.is_allowed() { "allowed" } else { "refused" }
}

/// Runs a future that never waits.
pub(crate) fn at_once<T>(future: impl IntoFuture<Output = T>) -> T {
    match pin!(future.into_future()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("counters in memory never wait"),
    }
}

/// So many cases of a property times `TOLLGATE_PROPTEST_CASES`.
pub(crate) fn config(cases: u32) -> Config {
    let factor = std::env::var("TOLLGATE_PROPTEST_CASES").ok();
    let factor = factor.map_or(1, |factor| factor.parse().expect("a whole number"));
    Config { cases: cases * factor, failure_persistence: None, ..Config::default() }
}
