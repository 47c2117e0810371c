//! What all clones of a layer share, and what happens to a request before and after the service.

use std::sync::Arc;

use ::http::header::HeaderName;
use ::http::request::Parts;
use ::http::{HeaderMap, Response};
use bytes::Bytes;
use tollgate_core::Micros;
use tollgate_store::Store;

use super::answer::{Answers, ambiguous};
use super::caller::Callers;
use super::hold::Places;
use crate::clock::Clock;
use crate::decision::Decision;
use crate::http::write_fields;
use crate::limiter::Limiter;
use crate::question::Question;

/// What the service behind says a request was worth.
const PRICE: HeaderName = HeaderName::from_static("x-request-cost");
/// As many requests wait at most, unless told otherwise.
const MOST_HELD: usize = 10_000;

pub(super) struct Gate<S, C> {
    pub(super) limiter: Arc<Limiter<S, C>>,
    pub(super) callers: Callers,
    pub(super) answers: Answers,
    pub(super) places: Places,
}

impl<S, C> Gate<S, C> {
    pub(super) fn new(limiter: Arc<Limiter<S, C>>) -> Self {
        Self {
            limiter,
            callers: Callers::default(),
            answers: Answers::default(),
            places: Places::new(MOST_HELD),
        }
    }
}

/// Stores and clocks need not be cloned for this.
impl<S, C> Clone for Gate<S, C> {
    fn clone(&self) -> Self {
        Self {
            limiter: Arc::clone(&self.limiter),
            callers: self.callers.clone(),
            answers: self.answers.clone(),
            places: self.places.clone(),
        }
    }
}

impl<S: Store, C: Clock> Gate<S, C> {
    /// Judges a request and holds it until its turn.
    ///
    /// # Errors
    /// The answer, if it does not pass.
    pub(super) async fn admit(&self, parts: &Parts) -> Result<Decision, Box<Response<Bytes>>> {
        let caller = self.callers.identify(parts, self.limiter.clock().now()).await;
        if caller.is_ambiguous() {
            return Err(Box::new(ambiguous(parts)));
        }
        let mut decision = self.limiter.answer(Question::Request(&caller.asking(parts))).await;
        if !decision.is_allowed() {
            return Err(Box::new(self.answers.refusal(&decision, parts)));
        }
        let Some(delay) = decision.delay().filter(|delay| *delay > Micros::ZERO) else {
            return Ok(decision);
        };
        let Some(_place) = self.places.take() else {
            // If the store is away by now, the charge stays. The request is refused all the same.
            let _ = self.limiter.correct(&decision, |_, _| 0).await;
            decision.turn_away();
            return Err(Box::new(self.answers.refusal(&decision, parts)));
        };
        tokio::time::sleep(delay.into()).await;
        Ok(decision)
    }

    /// Puts the fields of the decision on the answer of the service, and corrects what was charged by
    /// what the answer says.
    pub(super) async fn settle_up<B>(
        &self,
        decision: Decision,
        mut response: Response<B>,
    ) -> Response<B> {
        let price = take_price(response.headers_mut());
        write_fields(&decision, self.answers.families, response.headers_mut());
        let status = response.status().as_u16();
        let is_refunded =
            decision.outcomes().any(|outcome| outcome.rule.refund_on.contains(status));
        if is_refunded || price.is_some() {
            // If the store is away by now, the charge stays. The client gets its answer all the same.
            let _ = self
                .limiter
                .reprice(decision, |rule, charged| {
                    if rule.refund_on.contains(status) { 0 } else { price.unwrap_or(charged) }
                })
                .await;
        }
        response
    }
}

/// What the request was worth. It is nobody's business but ours, so it goes no further.
fn take_price(fields: &mut HeaderMap) -> Option<u64> {
    fields.remove(PRICE)?.to_str().ok()?.trim().parse().ok()
}
