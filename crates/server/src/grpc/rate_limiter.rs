//! `tollgate.v1.RateLimiter`: the check API over gRPC.

use std::ops::Range;

use http::HeaderMap;
use prost::Message as _;
use tokio::task::yield_now;
use tollgate::http::{remaining, reset_at, retry_after, retry_after_rule};
use tollgate::{
    Attributes as _, Decision, OnceAnswer, Question, RuleOutcome, SoftState, Stopwatch, Store as _,
};
use tollgate_catalog::Author;
use tonic::{Request, Response, Status};

use super::definitions::tollgate::v1::check_result::Result as One;
use super::definitions::tollgate::v1::rate_limiter_server as server;
use super::definitions::tollgate::v1::{
    CheckBatchRequest, CheckBatchResponse, CheckError, CheckRequest, CheckResponse, CheckResult,
    QuotaResponse, ResetResponse, RuleStatus,
};
use super::{read, status};
use crate::auth::Principal;
use crate::handlers::batch::CHECKS_PER_TURN;
use crate::handlers::give_back;
use crate::handlers::look::Costless;
use crate::idempotency::{Remembered, Turn, key_reused};
use crate::journal::DecisionId;
use crate::listen::Peer;
use crate::metrics::{Entry, RequestOutcome};
use crate::problem::Problem;
use crate::state::ServerState;
use crate::traces::note_decision;
use crate::wire::answer::{Reason, refuser};
use crate::wire::check::{CheckBody, Subject};

/// Answers checks.
#[derive(Debug)]
pub(super) struct RateLimiter(ServerState);

impl RateLimiter {
    pub(super) fn new(state: ServerState) -> Self {
        Self(state)
    }

    async fn check(
        &self,
        request: &CheckRequest,
        caller: &Principal,
    ) -> Result<CheckResponse, Problem> {
        let body = read::body(request)?;
        if let Some(sent) = &request.timestamp {
            self.0.metrics.note_skew(self.0.now(), sent.seconds, sent.nanos);
        }
        let Some(key) = body.idempotency_key.as_deref() else {
            return self.judge(&body, request.detail).await;
        };
        let now = self.0.now();
        let turn = self.0.idempotency.turn_over("grpc:", caller, key, &body, now).await?;
        if let Some(answer) = turn.answered() {
            return CheckResponse::decode(&*answer.body)
                .map_err(|_| Problem::internal("an answer cannot be read again"));
        }
        let answer = self.judge_once(&body, request.detail, &turn).await?;
        if answer.allowed {
            let body = answer.encode_to_vec().into();
            turn.remember(Remembered { body, headers: HeaderMap::new() });
        }
        Ok(answer)
    }

    async fn judge(&self, body: &CheckBody<'_>, detail: bool) -> Result<CheckResponse, Problem> {
        let subject = body.subject(|| self.0.limiter.policy())?;
        let stopwatch = Stopwatch::start();
        let waiting = match self.0.limiter.answer_at_once(subject.of(body)) {
            Some(decision) => {
                self.0.metrics.checks.observe(stopwatch.elapsed());
                return Ok(self.answer(body, &decision, detail));
            }
            None => self.0.limiter.answer(subject.of(body)),
        };
        let decision = waiting.await;
        self.0.metrics.checks.observe(stopwatch.elapsed());
        Ok(self.answer(body, &decision, detail))
    }

    /// The same for a check that another node may have answered.
    async fn judge_once(
        &self,
        body: &CheckBody<'_>,
        detail: bool,
        turn: &Turn,
    ) -> Result<CheckResponse, Problem> {
        if !self.0.limiter.store().is_shared() {
            return self.judge(body, detail).await;
        }
        let subject = body.subject(|| self.0.limiter.policy())?;
        let stopwatch = Stopwatch::start();
        // Taken before it is known whether it is needed, so that all nodes give the same.
        let id = self.0.journal.next_id(true);
        let note = id.text();
        let once = turn.once(&note);
        let answer = Box::pin(self.0.limiter.answer_once(subject.of(body), &once)).await;
        self.0.metrics.checks.observe(stopwatch.elapsed());
        match answer {
            OnceAnswer::First(decision) if decision.is_allowed() => {
                Ok(self.answer_as(Some(id), body, &decision, detail))
            }
            OnceAnswer::First(decision) => Ok(self.answer(body, &decision, detail)),
            OnceAnswer::Again { decision, note } => {
                // Redis holds what any of its clients wrote: only an id is repeated as one.
                let id = note.parse().ok().filter(|_| decision.charged() > 0);
                let text = id.map(DecisionId::text);
                note_decision(&decision, text.as_deref());
                Ok(write(&decision, text.as_deref(), detail))
            }
            OnceAnswer::Conflict => Err(key_reused()),
        }
    }

    /// Tells a decision, and keeps it, unless it was only a look.
    fn answer(&self, body: &CheckBody<'_>, decision: &Decision, detail: bool) -> CheckResponse {
        self.answer_as(None, body, decision, detail)
    }

    /// The same under a name that was taken for it.
    fn answer_as(
        &self,
        taken: Option<DecisionId>,
        body: &CheckBody<'_>,
        decision: &Decision,
        detail: bool,
    ) -> CheckResponse {
        if body.cost() > 0 {
            self.0.metrics.requests.count_decision(Entry::Grpc, decision);
        }
        let is_look =
            decision.is_allowed() && decision.charged() == 0 && decision.would_refuse().is_none();
        let next = || self.0.journal.next_id(decision.is_allowed());
        let text = (!is_look).then(|| {
            let id = taken.unwrap_or_else(next);
            self.0.journal.record(id, decision);
            self.0.audit_trail.note(decision, id.text(), || body.about());
            id.text()
        });
        note_decision(decision, text.as_deref());
        write(decision, text.as_deref(), detail)
    }
}

#[tonic::async_trait]
impl server::RateLimiter for RateLimiter {
    async fn check_rate_limit(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        let caller = caller(&request);
        let answer = self.check(request.get_ref(), &caller).await.map_err(status::of)?;
        Ok(Response::new(answer))
    }

    async fn get_remaining_quota(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<QuotaResponse>, Status> {
        let body = read::body(request.get_ref()).map_err(status::of)?;
        let subject = body.subject(|| self.0.limiter.policy()).map_err(status::of)?;
        let looked = self.0.limiter.answer(subject.of(&Costless(&body)));
        let decision = looked.await;
        let answer = write(&decision, None, true);
        Ok(Response::new(QuotaResponse {
            limit: answer.limit,
            remaining: answer.remaining,
            reset_at: answer.reset_at,
            rule_id: answer.rule_id,
            rules: answer.rules,
        }))
    }

    async fn reset_limit(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<ResetResponse>, Status> {
        let (app, author) = (self.0.clone(), author(&request));
        let resetting = async move {
            let body = read::body(request.get_ref())?;
            give_back::reset_counters(&app, author, &body).await
        };
        let counters = give_back::to_the_end(resetting).await.map_err(status::of)?;
        Ok(Response::new(ResetResponse { counters: counters as u64 }))
    }

    async fn check_batch(
        &self,
        request: Request<CheckBatchRequest>,
    ) -> Result<Response<CheckBatchResponse>, Status> {
        let caller = caller(&request);
        let CheckBatchRequest { checks } = request.get_ref();
        let most = self.0.batch_size;
        if checks.is_empty() || checks.len() > most {
            let count = checks.len();
            let detail = format!("checks: a batch has 1 to {most} checks, this one has {count}");
            return Err(Status::invalid_argument(detail));
        }
        let policy = self.0.limiter.policy();
        let mut bodies = Vec::with_capacity(checks.len());
        for (place, check) in checks.iter().enumerate() {
            let at = |problem: Problem| status::of(problem.at(&format!("checks[{place}]")));
            bodies.push(read::body(check).map_err(at)?);
        }
        let mut subjects = Vec::with_capacity(checks.len());
        for (place, body) in bodies.iter().enumerate() {
            let at = |problem: Problem| status::of(problem.at(&format!("checks[{place}]")));
            subjects.push(body.subject(|| &policy).map_err(at)?);
        }
        let mut results = Vec::with_capacity(checks.len());
        let mut place = 0;
        while place < checks.len() {
            if bodies[place].idempotency_key.is_some() {
                let checked = self.check(&checks[place], &caller).await;
                if checked.is_err() {
                    self.0.metrics.requests.count(Entry::Grpc, RequestOutcome::Error);
                }
                results.push(result(checked));
                place += 1;
                continue;
            }
            let run = bodies[place..].iter().take_while(|body| body.idempotency_key.is_none());
            let end = place + run.count();
            let run = (&bodies[place..end], &subjects[place..end]);
            self.judge_run(&checks[place..end], run, &mut results).await;
            place = end;
        }
        Ok(Response::new(CheckBatchResponse { results }))
    }
}

impl RateLimiter {
    /// Judges checks without idempotency keys together.
    async fn judge_run(
        &self,
        checks: &[CheckRequest],
        (bodies, subjects): (&[CheckBody<'_>], &[Subject<'_>]),
        results: &mut Vec<CheckResult>,
    ) {
        let stopwatch = Stopwatch::start();
        let mut write = |place: usize, decision: &Decision| {
            let answer = self.answer(&bodies[place], decision, checks[place].detail);
            results.push(result(Ok(answer)));
        };
        let questions = |range: Range<usize>| -> Vec<Question<'_>> {
            let checks = bodies[range.clone()].iter().zip(&subjects[range]);
            checks.map(|(body, subject)| subject.of(body)).collect()
        };
        let mut done = 0;
        while done < checks.len() {
            let end = checks.len().min(done + CHECKS_PER_TURN);
            let take = |place: usize, decision: &Decision| write(done + place, decision);
            if !self.0.limiter.check_batch_with(&questions(done..end), take) {
                break;
            }
            done = end;
            yield_now().await;
        }
        if done < checks.len() {
            let waiting = self.0.limiter.check_batch(&questions(done..checks.len()));
            for (place, decision) in (done..).zip(&waiting.await) {
                write(place, decision);
            }
        }
        self.0.metrics.checks.observe(stopwatch.elapsed());
    }
}

fn result(checked: Result<CheckResponse, Problem>) -> CheckResult {
    let result = match checked {
        Ok(response) => One::Response(response),
        Err(problem) => One::Error(CheckError {
            code: problem.code().to_owned(),
            detail: problem.detail().to_owned(),
        }),
    };
    CheckResult { result: Some(result) }
}

fn caller<T>(request: &Request<T>) -> Principal {
    // Everybody who gets here was admitted as somebody.
    request.extensions().get().cloned().unwrap_or(Principal::Anonymous)
}

/// Who it is, for the audit log.
fn author<T>(request: &Request<T>) -> Author {
    let caller = caller(request);
    let peer: Option<&Peer> = request.extensions().get();
    Author {
        actor: caller.name().to_owned(),
        role: caller.role().name().to_owned(),
        tenant: caller.tenant().map(str::to_owned),
        address: peer.map(|peer| peer.address.ip().to_string()),
    }
}

fn write(decision: &Decision, id: Option<&str>, detail: bool) -> CheckResponse {
    let binding = decision.binding();
    let figures = binding.as_ref().map(|binding| &binding.outcome);
    let rule_id = binding.as_ref().map(|binding| &*binding.rule.id).or_else(|| refuser(decision));
    CheckResponse {
        allowed: decision.is_allowed(),
        current_count: figures
            .map_or(0, |figures| figures.limit.saturating_sub(figures.report.remaining)),
        limit: figures.map(|figures| figures.limit),
        remaining: figures.map(remaining),
        reset_at: figures.map(|figures| reset_at(decision.now(), figures)),
        retry_after: retry_after(decision),
        rule_id: rule_id.unwrap_or_default().to_owned(),
        state: state(decision.state()).to_owned(),
        decision_id: id.unwrap_or_default().to_owned(),
        reason: decision.refusal().map_or("", |refusal| Reason::from(refusal).name()).to_owned(),
        delay_ms: decision.delay().map_or(0, tollgate::Micros::as_millis_ceil),
        degraded: decision.degraded().map(|kind| kind.to_string()).unwrap_or_default(),
        rules: if detail {
            decision.outcomes().map(|outcome| rule(decision, &outcome)).collect()
        } else {
            Vec::new()
        },
    }
}

fn rule(decision: &Decision, outcome: &RuleOutcome<'_>) -> RuleStatus {
    let figures = &outcome.outcome;
    RuleStatus {
        rule_id: outcome.rule.id.to_string(),
        allowed: !outcome.is_exceeded(),
        shadow: outcome.is_shadow(),
        limit: figures.limit,
        remaining: remaining(figures),
        window_seconds: figures.window.get() as f64 / 1e6,
        cost: figures.cost,
        reset_at: reset_at(decision.now(), figures),
        retry_after: retry_after_rule(figures),
        state: state(outcome.state).to_owned(),
    }
}

const fn state(state: SoftState) -> &'static str {
    match state {
        SoftState::Normal => "normal",
        SoftState::Warning => "warning",
        SoftState::Throttled => "throttled",
    }
}
