//! `peek` and `explain`: read counters without charging them.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use serde::Serialize;
use tollgate::http::write_fields;
use tollgate::rules::SECRET_DIGEST;
use tollgate::{Attribute, Attributes, Explained, Peek};
use tollgate_api::{CheckRequest, CheckResponse};

use crate::app::state::ServerState;
use crate::check::checker::{Naming, Recording};
use crate::check::decision_id::IdText;
use crate::edge::envoy::or_of_file;
use crate::edge::http::extract::{Explainer, JsonBody, PeekCaller};
use crate::edge::http::openapi::{BodyProblems, CallProblems};
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::check::CheckBody;
use crate::edge::http::wire::decode::decode;
use crate::edge::http::wire::response::{response, write};
use crate::observe::metrics::EntryPoint;

/// Reads the limits and counters of a check, without charging it.
///
/// A peek costs nothing, so `allowed` is true unless the client is denied; read `remaining` instead.
#[utoipa::path(
    post, path = "/api/v1/rate-limit/peek", tag = "check", security((), ("token" = [])), request_body = CheckRequest<'_>,
    responses(
        (status = 200, description = "Read", body = CheckResponse<'_>),
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The fields do not belong together", body = ProblemBody<'_>, content_type = "application/problem+json"),
        BodyProblems,
        CallProblems,
    )
)]
pub(crate) async fn peek(
    State(app): State<ServerState>,
    _: PeekCaller,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let check: CheckBody<'_> = decode(&body)?;
    let subject = check.subject(|| app.limiter.policy());
    let subject = subject.map_err(|problem| or_of_file(&app, check.rule_id.as_deref(), problem))?;
    let checked = app.limiter.check(subject.of(&Peek(&check)));
    let decision = checked.await;
    let mut fields = HeaderMap::new();
    write_fields(&decision, app.families, &mut fields);
    let (entry, naming) = (EntryPoint::Http, Naming::Kept);
    let recording = Recording { entry, is_request: false, outcome: None, naming, call: None };
    let id = app.checker.record(&decision, recording, |_| None);
    let mut answer = Vec::new();
    let detail = check.detail.unwrap_or(true);
    let id = id.as_ref().map(IdText::as_bytes);
    write(&response(&decision, None, detail), id, &mut answer);
    let content_type = [(http::header::CONTENT_TYPE, "application/json")];
    Ok((fields, content_type, answer).into_response())
}

/// A check whose API key may be its digest, as policies and lists write it. Only explanations take one for the other: they
/// charge nothing, and let nothing pass.
struct ByDigest<'a>(&'a CheckBody<'a>);

impl Attributes for ByDigest<'_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        self.0.get(attribute)
    }

    fn cost(&self) -> u64 {
        self.0.cost()
    }

    fn api_key_digest(&self) -> Option<&str> {
        let key = self.0.get(Attribute::ApiKey)?;
        SECRET_DIGEST.made(key).then_some(key)
    }
}

/// An explanation by the rules, and whether there are limits that it says nothing of.
#[derive(Serialize)]
struct Explanation {
    #[serde(flatten)]
    explained: Explained,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_envoy_limits: bool,
}

/// Explains for every rule whether it applies to a request and why, what is left, and which one binds.
///
/// Lists rules without a tenant and rules of the request's tenant. With the token of a viewer, an
/// operator or an admin it lists all rules. Limits of files of envoyproxy/ratelimit are not explained: `has_envoy_limits`
/// says that there are some, `GET /api/v1/envoy/limits` lists them, and `POST /json` checks by them.
#[utoipa::path(
    post, path = "/api/v1/rate-limit/explain", tag = "check", security((), ("token" = [])), request_body = CheckRequest<'_>,
    responses(
        (status = 200, description = "Explained", body = Object),
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The fields do not belong together", body = ProblemBody<'_>, content_type = "application/problem+json"),
        BodyProblems,
        CallProblems,
    )
)]
pub(crate) async fn explain(
    State(app): State<ServerState>,
    Explainer { scope, caller }: Explainer,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let queue = app.queues.explanations.clone();
    let explaining = async move {
        let check: CheckBody<'_> = decode(&body)?;
        // The fields have to belong together, even though all rules are explained.
        check
            .subject(|| app.limiter.policy())
            .map_err(|problem| or_of_file(&app, check.rule_id.as_deref(), problem))?;
        let explained = app.limiter.explain_within(&ByDigest(&check), scope).await;
        let has_envoy_limits = !app.envoy.source.loaded.load().config.limits().is_empty();
        Ok(Json(Explanation { explained, has_envoy_limits }).into_response())
    };
    queue.run(&caller, Box::pin(explaining)).await?
}
