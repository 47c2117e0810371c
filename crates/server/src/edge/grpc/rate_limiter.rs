//! `tollgate.v1.RateLimiter`: the check API over gRPC.

use http::HeaderMap;
use tollgate::{Decision, Peek};
use tollgate_catalog::Author;
use tonic::{Request, Response, Status};

use super::definitions::tollgate::v1::rate_limiter_server as server;
use super::definitions::tollgate::v1::refund_request::Refund as What;
use super::definitions::tollgate::v1::{
    CheckBatchRequest, CheckBatchResponse, CheckRequest, CheckResponse, QuotaResponse,
    RefundRequest, RefundResponse, ResetResponse,
};
use super::read::{self, ReadCheck};
use super::unary::{Framed, Reply};
use super::wire::WireCheck;
use super::{respond, status};
use crate::admin::auth::Principal;
use crate::app::state::ServerState;
use crate::check::checker::Recording;
use crate::check::decision_id::IdText;
use crate::check::idempotency::Remembered;
use crate::check::refund::refund_decision;
use crate::edge::http::handlers::refund;
use crate::edge::http::problem::Problem;
use crate::edge::http::wire::check::CheckBody;
use crate::edge::listen::Peer;
use crate::observe::metrics::{EntryPoint, RequestOutcome};

/// The bytes that most responses fit into; more for a response that lists every rule.
const RESPONSE_CAPACITY: usize = 128;
const DETAILED_CAPACITY: usize = 512;

/// The service that callers of the check API use.
#[derive(Debug)]
pub(super) struct RateLimiter(ServerState);

impl RateLimiter {
    pub(super) fn new(state: ServerState) -> Self {
        Self(state)
    }

    /// Answers `CheckRateLimit`; returns the message if the library has to read it.
    pub(super) async fn check_framed(
        self,
        message: Framed,
        caller: Principal,
    ) -> Result<Result<Reply, Status>, Framed> {
        match WireCheck::read(message.message()) {
            Some(check) => Ok(self.check(check, &caller).await.map_err(status::of)),
            None => Err(message),
        }
    }

    /// Answers `CheckBatch`; returns the message if the library has to read it.
    pub(super) async fn check_batch_framed(
        self,
        message: Framed,
        caller: Principal,
    ) -> Result<Result<Reply, Status>, Framed> {
        match WireCheck::read_batch(message.message(), self.0.batch_size) {
            Some(checks) => Ok(self.check_all(checks, &caller).await),
            None => Err(message),
        }
    }

    async fn check(&self, check: WireCheck<'_>, caller: &Principal) -> Result<Reply, Problem> {
        let ReadCheck { body, detail, sent_at } = read::check(check)?;
        if let Some(sent) = sent_at {
            self.0.metrics.note_skew(self.0.now(), sent.seconds, sent.nanos);
        }
        if let Some(key) = body.idempotency_key.as_deref() {
            let response = Box::pin(self.check_idempotent(key, &body, detail, caller)).await?;
            let mut reply = Reply::with_capacity(response.body.len());
            reply.message_mut().extend_from_slice(&response.body);
            return Ok(reply);
        }
        let subject = read::subject(&body, || self.0.limiter.policy())?;
        let checked = self.0.checker.check(
            subject.of(&body),
            Recording::of(EntryPoint::Grpc, &body),
            |_| Some(body.context()),
            |decision, id| {
                let capacity = if detail { DETAILED_CAPACITY } else { RESPONSE_CAPACITY };
                let mut reply = Reply::with_capacity(capacity);
                let id = id.map(IdText::as_bytes);
                respond::write(reply.message_mut(), decision, id, detail);
                reply
            },
        );
        Ok(checked.await)
    }

    /// Checks a request with an idempotency key, or replays the response that it got before.
    async fn check_idempotent(
        &self,
        key: &str,
        body: &CheckBody<'_>,
        detail: bool,
        caller: &Principal,
    ) -> Result<Remembered, Problem> {
        let respond = |decision: &Decision, id: Option<&IdText>| {
            let mut response = Vec::with_capacity(RESPONSE_CAPACITY);
            respond::write(&mut response, decision, id.map(IdText::as_bytes), detail);
            Remembered { body: response.into(), headers: HeaderMap::new() }
        };
        let caller = (caller, "grpc", key);
        let checked = self.0.checker.check_idempotent(EntryPoint::Grpc, caller, body, respond);
        Ok(checked.await?.0)
    }

    async fn check_all(
        &self,
        checks: Vec<WireCheck<'_>>,
        caller: &Principal,
    ) -> Result<Reply, Status> {
        let (most, count) = (self.0.batch_size, checks.len());
        if count == 0 || count > most {
            let detail = format!("checks: a batch has 1 to {most} checks, this one has {count}");
            return Err(Status::invalid_argument(detail));
        }
        let at =
            |place: usize, problem: Problem| status::of(problem.at(&format!("checks[{place}]")));
        let policy = self.0.limiter.policy();
        let mut bodies = Vec::with_capacity(count);
        let mut extras = Vec::with_capacity(count);
        for (place, check) in checks.into_iter().enumerate() {
            let ReadCheck { body, detail, sent_at } =
                read::check(check).map_err(|problem| at(place, problem))?;
            bodies.push(body);
            extras.push((detail, sent_at));
        }
        let mut subjects = Vec::with_capacity(count);
        for (place, body) in bodies.iter().enumerate() {
            let subject = read::subject(body, || &policy);
            subjects.push(subject.map_err(|problem| at(place, problem))?);
        }
        let mut reply = Reply::with_capacity(count * RESPONSE_CAPACITY);
        let mut place = 0;
        while let (Some(body), Some((detail, sent_at))) = (bodies.get(place), extras.get(place)) {
            if let Some(key) = body.idempotency_key.as_deref() {
                if let Some(sent) = sent_at {
                    self.0.metrics.note_skew(self.0.now(), sent.seconds, sent.nanos);
                }
                // On the heap: it is large and rare, and the future of every batch would have to hold it.
                match Box::pin(self.check_idempotent(key, body, *detail, caller)).await {
                    Ok(one) => respond::write_result(reply.message_mut(), |out| {
                        out.extend_from_slice(&one.body);
                    }),
                    Err(problem) => {
                        self.0.metrics.requests.count(EntryPoint::Grpc, RequestOutcome::Error);
                        respond::write_error(reply.message_mut(), &problem);
                    }
                }
                place += 1;
                continue;
            }
            let run = bodies[place..].iter().take_while(|body| body.idempotency_key.is_none());
            let end = place + run.count();
            let respond = |number: usize, decision: &Decision, id: Option<&IdText>| {
                let detail = extras.get(place + number).is_some_and(|(detail, _)| *detail);
                respond::write_result(reply.message_mut(), |out| {
                    respond::write(out, decision, id.map(IdText::as_bytes), detail);
                });
            };
            let (run, subjects) = (&bodies[place..end], &subjects[place..end]);
            self.0.checker.check_batch(EntryPoint::Grpc, run, subjects, respond).await;
            place = end;
        }
        Ok(reply)
    }
}

#[tonic::async_trait]
impl server::RateLimiter for RateLimiter {
    async fn check_rate_limit(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let this = Self(self.0.clone());
        let check = async move { this.check(WireCheck::from(&request), &caller).await };
        self.0.finish(check).await.map_err(status::of)?.decoded()
    }

    async fn get_remaining_quota(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<QuotaResponse>, Status> {
        let body = read::body(request.get_ref()).map_err(status::of)?;
        let subject = read::subject(&body, || self.0.limiter.policy()).map_err(status::of)?;
        let checked = self.0.limiter.check(subject.of(&Peek(&body)));
        Ok(Response::new(respond::quota(&checked.await)))
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
        let check = async move {
            let checks = request.checks.iter().map(WireCheck::from).collect();
            this.check_all(checks, &caller).await
        };
        self.0.finish(check).await?.decoded()
    }
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
