//! `tollgate.v1.RateLimiter`: the check API over gRPC.

use http::HeaderMap;
use prost::Message as _;
use tollgate::http::{full_at, remaining, reset_at, retry_after, retry_after_rule};
use tollgate::{Decision, Peek, RuleOutcome, SoftState};
use tollgate_catalog::Author;
use tonic::{Request, Response, Status};

use super::definitions::tollgate::v1::check_result::Result as One;
use super::definitions::tollgate::v1::rate_limiter_server as server;
use super::definitions::tollgate::v1::refund_request::Refund as What;
use super::definitions::tollgate::v1::{
    CheckBatchRequest, CheckBatchResponse, CheckError, CheckRequest, CheckResponse, CheckResult,
    QuotaResponse, RefundRequest, RefundResponse, ResetResponse, RuleQuota, RuleStatus,
};
use super::{read, status};
use crate::admin::auth::Principal;
use crate::app::state::ServerState;
use crate::check::checker::Recording;
use crate::check::idempotency::Remembered;
use crate::check::refund::refund_decision;
use crate::edge::http::handlers::refund;
use crate::edge::http::problem::Problem;
use crate::edge::http::wire::response::{reason, refuser, seconds};
use crate::edge::listen::Peer;
use crate::observe::metrics::{EntryPoint, RequestOutcome};

/// The service that callers of the check API use.
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
        let (app, body) = (&self.0, read::body(request)?);
        if let Some(sent) = &request.timestamp {
            app.metrics.note_skew(app.now(), sent.seconds, sent.nanos);
        }
        let Some(key) = body.idempotency_key.as_deref() else {
            let subject = read::subject(&body, || app.limiter.policy())?;
            let checked = app.checker.check(
                subject.of(&body),
                Recording::of(EntryPoint::Grpc, &body),
                |_| Some(body.context()),
                |decision, id| write(decision, id, request.detail),
            );
            return Ok(checked.await);
        };
        // The response is remembered as bytes for replays; the first call has the message itself.
        let mut first = None;
        let respond = |decision: &Decision, id: Option<&str>| {
            let response = first.insert(write(decision, id, request.detail));
            Remembered { body: response.encode_to_vec().into(), headers: HeaderMap::new() }
        };
        let caller = (caller, "grpc", key);
        let checked = app.checker.check_idempotent(EntryPoint::Grpc, caller, &body, respond);
        let (remembered, _) = Box::pin(checked).await?;
        first
            .map_or_else(|| CheckResponse::decode(&*remembered.body), Ok)
            .map_err(|_| Problem::internal("a response cannot be read again"))
    }

    async fn check_all(
        &self,
        checks: &[CheckRequest],
        caller: &Principal,
    ) -> Result<CheckBatchResponse, Status> {
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
            subjects.push(read::subject(body, || &policy).map_err(at)?);
        }
        let mut results = Vec::with_capacity(checks.len());
        let mut place = 0;
        while place < checks.len() {
            if bodies[place].idempotency_key.is_some() {
                let checked = self.check(&checks[place], caller).await;
                if checked.is_err() {
                    self.0.metrics.requests.count(EntryPoint::Grpc, RequestOutcome::Error);
                }
                results.push(result(checked));
                place += 1;
                continue;
            }
            let run = bodies[place..].iter().take_while(|body| body.idempotency_key.is_none());
            let end = place + run.count();
            let respond = |number: usize, decision: &Decision, id: Option<&str>| {
                let detail = checks.get(place + number).is_some_and(|check| check.detail);
                results.push(result(Ok(write(decision, id, detail))));
            };
            let (run, subjects) = (&bodies[place..end], &subjects[place..end]);
            self.0.checker.check_batch(EntryPoint::Grpc, run, subjects, respond).await;
            place = end;
        }
        Ok(CheckBatchResponse { results })
    }
}

#[tonic::async_trait]
impl server::RateLimiter for RateLimiter {
    async fn check_rate_limit(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let answer = if self.0.can_callers_leave() {
            let this = Self(self.0.clone());
            let check = async move { this.check(&request, &caller).await };
            self.0.finish(check).await
        } else {
            self.check(&request, &caller).await
        };
        Ok(Response::new(answer.map_err(status::of)?))
    }

    async fn get_remaining_quota(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<QuotaResponse>, Status> {
        let body = read::body(request.get_ref()).map_err(status::of)?;
        let subject = read::subject(&body, || self.0.limiter.policy()).map_err(status::of)?;
        let checked = self.0.limiter.check(subject.of(&Peek(&body)));
        let decision = checked.await;
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
            read::subject(&body, || app.limiter.policy())?;
            refund::reset_counters(&app, author, &body).await
        };
        let counters = refund::to_the_end(resetting).await.map_err(status::of)?;
        Ok(Response::new(ResetResponse { counters: counters as u64 }))
    }

    async fn refund(
        &self,
        request: Request<RefundRequest>,
    ) -> Result<Response<RefundResponse>, Status> {
        let (app, author) = (self.0.clone(), author(&request));
        let refunding = async move {
            match &request.get_ref().refund {
                Some(What::DecisionId(id)) => refund_decision(&app, &author, id).await,
                Some(What::Check(check)) => {
                    let body = read::body(check)?;
                    if body.idempotency_key.is_some() {
                        let detail = "idempotency_key: refunds know no such key";
                        return Err(Problem::bad_request("invalid_idempotency_key", detail));
                    }
                    read::subject(&body, || app.limiter.policy())?;
                    refund::refund_check(&app, &author, &body).await
                }
                None => {
                    let detail = "give decision_id, or the check whose cost is to be refunded";
                    Err(Problem::unprocessable("invalid_body", detail))
                }
            }
        };
        let counters = refund::to_the_end(refunding).await.map_err(status::of)?;
        Ok(Response::new(RefundResponse { counters: counters as u64 }))
    }

    async fn check_batch(
        &self,
        request: Request<CheckBatchRequest>,
    ) -> Result<Response<CheckBatchResponse>, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let this = Self(self.0.clone());
        let check = async move { this.check_all(&request.checks, &caller).await };
        Ok(Response::new(self.0.finish(check).await?))
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
    // `Services::call` stores the principal of every admitted call.
    request.extensions().get().cloned().unwrap_or(Principal::Anonymous)
}

/// The caller, for the audit log.
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
        reset_at: binding
            .as_ref()
            .map(|binding| reset_at(decision.now(), binding.limit(), &binding.outcome)),
        retry_after: retry_after(decision),
        rule_id: rule_id.unwrap_or_default().to_owned(),
        state: state(decision.state()).to_owned(),
        decision_id: id.unwrap_or_default().to_owned(),
        reason: decision.refusal().map_or("", |refusal| reason(refusal).name()).to_owned(),
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
    let (figures, (limit, window)) = (&outcome.outcome, outcome.quota());
    RuleStatus {
        rule_id: outcome.rule.id.to_string(),
        allowed: !outcome.is_exceeded(),
        shadow: outcome.is_shadow(),
        limit: figures.limit,
        remaining: remaining(figures),
        window_seconds: seconds(figures.window),
        cost: figures.cost,
        reset_at: reset_at(decision.now(), outcome.limit(), &outcome.outcome),
        full_at: Some(full_at(decision.now(), figures)),
        quota: (limit != figures.limit)
            .then(|| RuleQuota { limit, window_seconds: seconds(window) }),
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
