//! Traces: one span for each request, joined to the trace of its caller.
//!
//! Spans are named by known routes and methods, and have the decision as attributes. They contain
//! nothing that a client sent, except its trace context.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{MatchedPath, Request};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, Span};
use tollgate::Decision;
use tonic::Code;

use crate::check::decision_id::IdText;
use crate::edge::grpc;
use crate::edge::http::wire::response::refuser;

/// Whether traces are exported. If not, reading this flag is all that tracing costs a request.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The longest `tracestate` that is propagated; the standard requires at least this much.
const MAX_STATE_BYTES: usize = 512;

tokio::task_local! {
    /// The notes about the current request, if it is traced.
    static NOTES: RefCell<Notes>;
}

/// What was noted about a request, for the attributes of its span.
#[derive(Default)]
struct Notes {
    route: Option<Cow<'static, str>>,
    checks: i64,
    refused: i64,
    /// The rule of the last check.
    rule_id: Option<String>,
    decision_id: Option<String>,
}

/// Notes which route a request has taken.
pub(crate) fn note_route(route: &'static str) {
    note(|notes| notes.route = Some(Cow::Borrowed(route)));
}

/// Notes which route the router has chosen.
pub(crate) async fn note_matched_path(request: Request) -> Request {
    if let Some(path) = request.extensions().get::<MatchedPath>() {
        note(|notes| notes.route = Some(Cow::Owned(path.as_str().to_owned())));
    }
    request
}

/// Notes a decision, and its id if it is kept.
pub(crate) fn note_decision(decision: &Decision, id: Option<&IdText>) {
    note(|notes| {
        notes.checks += 1;
        notes.refused += i64::from(!decision.is_allowed());
        let binding = decision.binding().map(|binding| binding.rule.id.to_string());
        notes.rule_id = binding.or_else(|| refuser(decision).map(str::to_owned));
        notes.decision_id = id.map(|id| (**id).to_owned());
    });
}

#[inline]
fn note(write: impl FnOnce(&mut Notes)) {
    if IS_ON.load(Ordering::Relaxed) {
        // An error means that this request is not traced.
        let _ = NOTES.try_with(|notes| write(&mut notes.borrow_mut()));
    }
}

/// Creates spans.
#[derive(Clone)]
pub(crate) struct Traces {
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
    /// The calls of gRPC that exist, as `package.Service/Method`.
    calls: Arc<[String]>,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

impl Traces {
    pub(crate) fn new(tracer: SdkTracer) -> Self {
        IS_ON.store(true, Ordering::Relaxed);
        let propagator = TraceContextPropagator::new();
        Self { tracer, propagator, calls: grpc::calls().into() }
    }

    /// Serves a request over HTTP within a span.
    pub(crate) async fn http<Q, B, F>(
        &self,
        request: http::Request<Q>,
        answer: impl FnOnce(http::Request<Q>) -> F,
    ) -> Response<B>
    where
        F: Future<Output = Response<B>>,
    {
        let method = known(request.method());
        let caller = self.caller(request.headers());
        let span = self.start(method.unwrap_or("HTTP"), &caller);
        if !span.is_recording() {
            return answer(request).await;
        }
        follow_http(span, method, answer(request)).await
    }

    /// Serves a request that is forwarded within a span, and propagates that span to the upstream.
    pub(crate) async fn forwarded<Q, B, F>(
        &self,
        mut request: http::Request<Q>,
        answer: impl FnOnce(http::Request<Q>) -> F,
    ) -> Response<B>
    where
        F: Future<Output = Response<B>>,
    {
        let method = known(request.method());
        let caller = self.caller(request.headers());
        let span = self.start(method.unwrap_or("HTTP"), &caller);
        // A caller that does not sample its trace is respected. Without a caller's decision, the sampler
        // has decided for all services.
        if span.is_recording() || !caller.has_active_span() {
            let own = caller.with_remote_span_context(span.span_context().clone());
            self.propagator.inject_context(&own, &mut PassedOn(request.headers_mut()));
        }
        if !span.is_recording() {
            return answer(request).await;
        }
        follow_http(span, method, answer(request)).await
    }

    /// Serves a call over gRPC within a span.
    pub(crate) async fn grpc<Q, B, F>(
        &self,
        request: http::Request<Q>,
        answer: impl FnOnce(http::Request<Q>) -> F,
    ) -> Response<B>
    where
        F: Future<Output = Response<B>>,
    {
        let mut span = self.start("grpc", &self.caller(request.headers()));
        if !span.is_recording() {
            return answer(request).await;
        }
        let path = request.uri().path();
        let call = self.calls.iter().find(|call| path.strip_prefix('/') == Some(call));
        if let Some((service, method)) = call.and_then(|call| call.split_once('/')) {
            span.update_name(format!("{service}/{method}"));
            span.set_attribute(KeyValue::new("rpc.service", service.to_owned()));
            span.set_attribute(KeyValue::new("rpc.method", method.to_owned()));
        }
        follow(span, answer(request), |span, _, response| {
            span.set_attribute(KeyValue::new("rpc.system", "grpc"));
            let code = grpc::code_of(response);
            span.set_attribute(KeyValue::new("rpc.grpc.status_code", i64::from(i32::from(code))));
            if let Some(kind) = failure(code) {
                fail(span, kind);
            }
        })
        .await
    }

    /// The span of the caller, if it sent its trace context.
    fn caller(&self, headers: &HeaderMap) -> Context {
        self.propagator.extract_with_context(&Context::new(), &ParentSpan::of(headers))
    }

    /// Starts a span, which is recorded if the caller samples its trace; without a caller's trace, the
    /// sampler decides.
    fn start(&self, name: &'static str, caller: &Context) -> Span {
        let span = self.tracer.span_builder(name).with_kind(SpanKind::Server);
        span.start_with_context(&self.tracer, caller)
    }
}

/// Waits for the response to a request over HTTP, and adds its attributes to the span.
async fn follow_http<B>(
    span: Span,
    method: Option<&'static str>,
    answer: impl Future<Output = Response<B>>,
) -> Response<B> {
    follow(span, answer, |span, notes, response| {
        if let Some(route) = notes.route.take() {
            span.update_name(format!("{} {route}", method.unwrap_or("HTTP")));
            span.set_attribute(KeyValue::new("http.route", route));
        }
        span.set_attribute(KeyValue::new("http.request.method", method.unwrap_or("_OTHER")));
        let status = response.status();
        let code = i64::from(status.as_u16());
        span.set_attribute(KeyValue::new("http.response.status_code", code));
        if status.is_server_error() {
            fail(span, status.as_str());
        }
    })
    .await
}

/// Waits for the response to a request, and ends its span. A cancelled request ends it too.
async fn follow<B>(
    mut span: Span,
    answer: impl Future<Output = Response<B>>,
    finish: impl FnOnce(&mut Span, &mut Notes, &Response<B>),
) -> Response<B> {
    let followed = async {
        let response = answer.await;
        NOTES.with(|notes| {
            let notes = &mut *notes.borrow_mut();
            finish(&mut span, notes, &response);
            tell_decisions(&mut span, notes);
        });
        span.end();
        response
    };
    NOTES.scope(RefCell::default(), followed).await
}

/// Adds the decision to the span; for a batch, only the numbers of checks and refusals.
fn tell_decisions(span: &mut Span, notes: &mut Notes) {
    match notes.checks {
        0 => {}
        1 => {
            span.set_attribute(KeyValue::new("tollgate.allowed", notes.refused == 0));
            if let Some(rule_id) = notes.rule_id.take() {
                span.set_attribute(KeyValue::new("tollgate.rule_id", rule_id));
            }
            if let Some(decision_id) = notes.decision_id.take() {
                span.set_attribute(KeyValue::new("tollgate.decision_id", decision_id));
            }
        }
        checks => {
            span.set_attribute(KeyValue::new("tollgate.checks", checks));
            span.set_attribute(KeyValue::new("tollgate.refused", notes.refused));
        }
    }
}

fn fail(span: &mut Span, kind: &str) {
    span.set_attribute(KeyValue::new("error.type", kind.to_owned()));
    span.set_status(Status::error(""));
}

/// The error type of a call, if its code is a failure of the server and not of the caller.
const fn failure(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::Unknown => "UNKNOWN",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        _ => return None,
    })
}

/// The name of a known method. Clients can invent others.
fn known(method: &Method) -> Option<&'static str> {
    const KNOWN: [&str; 9] =
        ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT"];
    KNOWN.into_iter().find(|known| *known == method.as_str())
}

/// The trace context of a caller.
struct ParentSpan<'a> {
    parent: Option<&'a str>,
    state: Option<Cow<'a, str>>,
}

impl<'a> ParentSpan<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        let lines = |name| headers.get_all(name).iter().map(|line| line.to_str().ok());
        let mut parents = lines("traceparent");
        let parent = parents.next().flatten();
        // Of two lines, one may not be the caller's.
        let parent = if parents.next().is_some() { None } else { parent };
        let state = lines("tracestate").try_fold(None, |before: Option<Cow<'a, str>>, line| {
            Some(Some(match before {
                None => Cow::Borrowed(line?),
                Some(before) => Cow::Owned(format!("{before},{}", line?)),
            }))
        });
        let state = state.flatten().filter(|state| state.len() <= MAX_STATE_BYTES);
        Self { parent, state }
    }
}

impl Extractor for ParentSpan<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.parent,
            "tracestate" => self.state.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

/// Writes the trace context for the upstream, in place of the caller's.
struct PassedOn<'a>(&'a mut HeaderMap);

impl Injector for PassedOn<'_> {
    fn set(&mut self, key: &str, value: String) {
        let Ok(name) = HeaderName::try_from(key) else { return };
        match HeaderValue::try_from(value) {
            Ok(value) if !value.is_empty() => drop(self.0.insert(name, value)),
            _ => drop(self.0.remove(name)),
        }
    }
}
