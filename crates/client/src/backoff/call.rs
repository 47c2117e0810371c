//! One call from its first attempt to its last.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use http::uri::Authority;
use http::{Request, Response};
use tokio::time::{Instant, sleep};
use tower_service::Service;

use super::budget::Budget;
use super::cooldown::Cooldowns;
use super::jitter::Jitter;
use super::layer::{BackoffSettings, CopyBody, DuringCooldown};
use super::retry_after::{is_for_later, unstated_wait, wait_asked};
use super::service::BackoffError;
use crate::clock;

/// What all calls through a service share.
#[derive(Debug)]
pub(super) struct SharedBackoff {
    settings: BackoffSettings,
    budget: Budget,
    cooldowns: Cooldowns,
    jitter: Jitter,
}

impl SharedBackoff {
    pub(super) fn new(settings: BackoffSettings) -> Self {
        let (percent, at_once) = settings.budget;
        Self {
            budget: Budget::new(percent, at_once),
            cooldowns: Cooldowns::new(settings.authorities),
            jitter: Jitter::new(),
            settings,
        }
    }
}

/// A call under way, with its retries.
pub(super) struct RetryingCall<C> {
    shared: Arc<SharedBackoff>,
    copy_body: C,
    authority: String,
    started: Instant,
    attempt: u32,
}

impl<C> RetryingCall<C> {
    pub(super) fn new<B>(shared: Arc<SharedBackoff>, copy_body: C, request: &Request<B>) -> Self {
        let authority = authority(request);
        Self { shared, copy_body, authority, started: clock::now(), attempt: 1 }
    }

    /// Sends the request until it succeeds, or until a retry would be pointless. `ready` is ready for a request;
    /// `spare` is made ready for each retry.
    pub(super) async fn run<S, B, R>(
        mut self,
        ready: S,
        spare: S,
        mut request: Request<B>,
    ) -> Result<Response<R>, BackoffError<S::Error>>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        C: CopyBody<B>,
    {
        let mut ready = Some(ready);
        let mut refusal = None;
        loop {
            if self.is_cooling_down() {
                // A call that waits must not hold the capacity of the service.
                ready = None;
                if let Err(cooling_down) = self.wait_until_free().await {
                    return self.give_up(cooling_down, refusal);
                }
            }
            // The response may hold the capacity that the retry waits for.
            drop(refusal);
            let mut service = match ready.take() {
                Some(ready) => ready,
                None => made_ready(spare.clone()).await.map_err(BackoffError::Inner)?,
            };
            if self.attempt == 1 {
                self.shared.budget.note_call();
            }
            let copy = self.copy(&request);
            let response = service.call(request).await.map_err(BackoffError::Inner)?;
            let asked = self.start_cooldown(&response);
            let again =
                copy.and_then(|copy| Some((copy, self.wait_before_next(&response, asked)?)));
            let Some((copy, wait)) = again else { return Ok(response) };
            drop(service);
            // It is still the result if the request may not be sent again.
            refusal = Some(response);
            sleep(wait).await;
            request = copy;
            self.attempt += 1;
        }
    }

    /// The result of a call that may not be sent during a cooldown: the refusal before it, whose retry is refunded
    /// to the budget.
    fn give_up<R, E>(
        &self,
        cooling_down: BackoffError<E>,
        refusal: Option<Response<R>>,
    ) -> Result<Response<R>, BackoffError<E>> {
        let Some(refusal) = refusal else { return Err(cooling_down) };
        self.shared.budget.take_back();
        Ok(refusal)
    }

    fn is_cooling_down(&self) -> bool {
        self.shared.cooldowns.until(&self.authority, clock::now()).is_some()
    }

    /// Waits for the end of the cooldown, unless that takes too long.
    async fn wait_until_free<E>(&self) -> Result<(), BackoffError<E>> {
        let SharedBackoff { settings, cooldowns, jitter, .. } = &*self.shared;
        loop {
            let now = clock::now();
            let Some(until) = cooldowns.until(&self.authority, now) else { return Ok(()) };
            let asked = until.duration_since(now);
            let wait = asked.saturating_add(jitter.up_to(settings.chance(1)));
            if settings.during_cooldown == DuringCooldown::Fail || !self.has_time(wait) {
                let authority = self.authority.clone();
                return Err(BackoffError::CoolingDown { authority, wait: asked });
            }
            sleep(wait).await;
        }
    }

    /// Another request like this, if it may be sent again.
    fn copy<B>(&self, request: &Request<B>) -> Option<Request<B>>
    where
        C: CopyBody<B>,
    {
        let settings = &self.shared.settings;
        if self.attempt >= settings.attempts || !settings.may_repeat(request.method()) {
            return None;
        }
        let body = self.copy_body.copy_body(request.body())?;
        let mut copy = Request::new(body);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        *copy.headers_mut() = request.headers().clone();
        *copy.extensions_mut() = request.extensions().clone();
        Some(copy)
    }

    /// Starts the cooldown that the service asked for, for all calls to it.
    fn start_cooldown<R>(&self, response: &Response<R>) -> Option<Duration> {
        let unix_seconds = clock::unix_seconds();
        let asked = wait_asked(response.status(), response.headers(), unix_seconds)?;
        let SharedBackoff { settings, cooldowns, .. } = &*self.shared;
        let now = clock::now();
        // A cooldown that no clock can express would never end, and is not kept.
        if let Some(until) = now.checked_add(asked.min(settings.max_cooldown)) {
            cooldowns.extend(&self.authority, until, now);
        }
        Some(asked)
    }

    /// How long to wait before the next attempt, if there is to be one.
    fn wait_before_next<R>(
        &self,
        response: &Response<R>,
        asked: Option<Duration>,
    ) -> Option<Duration> {
        let SharedBackoff { settings, jitter, budget, .. } = &*self.shared;
        let chance = jitter.up_to(settings.chance(self.attempt));
        let wait = asked.unwrap_or_else(|| unstated_wait(response.status())).saturating_add(chance);
        let is_wanted = is_for_later(response.status()) && self.has_time(wait);
        (is_wanted && budget.pay()).then_some(wait)
    }

    fn has_time(&self, wait: Duration) -> bool {
        let waited = clock::now().duration_since(self.started);
        waited.saturating_add(wait) <= self.shared.settings.total
    }
}

/// The service when it can take a request.
async fn made_ready<S: Service<Q>, Q>(mut service: S) -> Result<S, S::Error> {
    poll_fn(|context| service.poll_ready(context)).await?;
    Ok(service)
}

/// The authority of a request: its host, and its port or the default one of its scheme. Never a user name
/// or a password, which may stand before them.
fn authority<B>(request: &Request<B>) -> String {
    let uri = request.uri();
    let named = || request.headers().get(HOST)?.to_str().ok()?.parse::<Authority>().ok();
    let Some(authority) = uri.authority().cloned().or_else(named) else { return String::new() };
    let usual_port = match uri.scheme_str() {
        Some("http" | "ws") => Some(80),
        Some("https" | "wss") => Some(443),
        _ => None,
    };
    let host = authority.host().to_ascii_lowercase();
    match authority.port_u16().or(usual_port) {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}
