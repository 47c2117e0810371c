//! The state that all clones of a layer share: checks a request before the inner service, and corrects its charge
//! after it.

use std::sync::Arc;

use ::http::header::HeaderName;
use ::http::request::Parts;
use ::http::{HeaderMap, Response};
use bytes::Bytes;
use tollgate_core::Micros;
use tollgate_store::Store;

use super::caller::Callers;
use super::delay::{DelayPlaces, DelayTurn};
use super::observed::{Observed, Observer};
use super::response::{ResponseBuilder, bad_credentials, bad_path};
use crate::checked::Promise;
use crate::clock::{Clock, Stopwatch};
use crate::decision::Decision;
use crate::http::{PathMatching, write_fields};
use crate::limiter::Limiter;
use crate::uncancelled::Uncancelled;

/// The response header of the inner service with the final cost of a request.
const PRICE: HeaderName = HeaderName::from_static("x-request-cost");
/// How many requests are delayed at a time by default.
const MAX_DELAYED: usize = 10_000;

/// A request that passes: the decision, and its place in the queue, if it is delayed.
type Judged = (Box<Decision>, Option<DelayTurn>, Parts);

/// A request that was checked and not refused, or the response.
pub(super) type Admission = Result<(Box<Decision>, Parts), Box<Response<Bytes>>>;

pub(super) struct Gate<S, C> {
    pub(super) limiter: Arc<Limiter<S, C>>,
    pub(super) callers: Callers,
    pub(super) answers: ResponseBuilder,
    pub(super) places: DelayPlaces,
    pub(super) observer: Option<Observer>,
    pub(super) paths: PathMatching,
}

impl<S, C> Gate<S, C> {
    pub(super) fn new(limiter: Arc<Limiter<S, C>>) -> Self {
        Self {
            limiter,
            callers: Callers::default(),
            answers: ResponseBuilder::default(),
            places: DelayPlaces::new(MAX_DELAYED),
            observer: None,
            paths: PathMatching::default(),
        }
    }
}

/// Derived, it would require stores and clocks to be `Clone`.
impl<S, C> Clone for Gate<S, C> {
    fn clone(&self) -> Self {
        Self {
            limiter: Arc::clone(&self.limiter),
            callers: self.callers.clone(),
            answers: self.answers.clone(),
            places: self.places.clone(),
            observer: self.observer.clone(),
            paths: self.paths,
        }
    }
}

impl<S: Store, C: Clock> Gate<S, C> {
    /// Checks a request and delays it if a rule says so. An error is the response, if it is refused.
    pub(super) fn admit(
        self: Arc<Self>,
        parts: Parts,
    ) -> impl Future<Output = Admission> + use<S, C> {
        // On the heap: a delayed request does not keep what its check needed.
        let judged = Uncancelled::new(self.judge(parts));
        async {
            let (decision, turn, parts) = judged.await?;
            if let Some(turn) = turn {
                turn.wait().await;
            }
            Ok((decision, parts))
        }
    }

    /// The decision about a request that passes, and its place in the queue, if it is delayed.
    async fn judge(self: Arc<Self>, parts: Parts) -> Result<Judged, Box<Response<Bytes>>> {
        let decided = self.decide(&parts).await;
        decided.map(|(decision, turn)| (decision, turn, parts))
    }

    async fn decide(
        &self,
        parts: &Parts,
    ) -> Result<(Box<Decision>, Option<DelayTurn>), Box<Response<Bytes>>> {
        let path = self.paths.read(parts.uri.path());
        let path = path.map_err(|problem| Box::new(bad_path(parts, problem)))?;
        let caller = self.callers.identify(parts, self.limiter.clock().now()).await;
        if let Some(problem) = caller.credential_problem() {
            return Err(Box::new(bad_credentials(parts, problem)));
        }
        // The clock is read only for an observer.
        let stopwatch = self.observer.as_ref().map(|_| Stopwatch::start());
        let checked = self.limiter.check_unrecorded(&caller.asking(parts, &path));
        let mut decision = match checked.boxed() {
            Promise::Ready(decision) => decision,
            Promise::Pending(pending) => pending.await,
        };
        let took = stopwatch.map(Stopwatch::elapsed).unwrap_or_default();
        let delay = decision.delay().filter(|delay| *delay > Micros::ZERO);
        let turn = delay.and_then(|delay| self.places.take(delay, caller.address(parts, &path)));
        if delay.is_some() && turn.is_none() {
            // If the store is unavailable by now, the charge stays. The request is refused anyway. On the heap: every
            // request would have to hold this future.
            let _ = Box::pin(self.limiter.correct(&decision, |_, _| 0)).await;
            decision.turn_away();
            decision.record_turned_away();
        } else {
            self.limiter.record(&decision);
        }
        let name = self.observer.as_ref().and_then(|observer| {
            let (request, identity) = (&caller.asking(parts, &path), caller.identity());
            observer(&Observed { decision: &decision, request, identity, parts, took })
        });
        if !decision.is_allowed() {
            return Err(Box::new(self.answers.refusal(&decision, parts, name)));
        }
        Ok((decision, turn))
    }

    /// Writes the header fields of the decision to the response of the service, and corrects the charge by its status
    /// and cost.
    pub(super) async fn settle_up<B>(
        self: Arc<Self>,
        decision: Box<Decision>,
        mut response: Response<B>,
    ) -> Response<B> {
        let price = take_price(response.headers_mut());
        write_fields(&decision, self.answers.families, response.headers_mut());
        let status = response.status().as_u16();
        let is_refunded =
            decision.outcomes().any(|outcome| outcome.rule.refund_on.contains(status));
        if is_refunded || price.is_some() {
            // In a background task: a client that disconnects does not cancel the correction.
            let correcting = tokio::spawn(async move {
                let correct = self.limiter.correct(&decision, |rule, charged| {
                    if rule.refund_on.contains(status) { 0 } else { price.unwrap_or(charged) }
                });
                // If the store is unavailable by now, the charge stays. The client gets its response anyway.
                let _ = correct.await;
            });
            // Awaited, so that the next request finds the charge corrected.
            let _ = correcting.await;
        }
        response
    }
}

/// The final cost of the request. The header is removed from the response.
fn take_price(fields: &mut HeaderMap) -> Option<u64> {
    fields.remove(PRICE)?.to_str().ok()?.trim().parse().ok()
}
