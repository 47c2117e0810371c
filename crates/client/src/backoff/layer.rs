//! The layer that backs off, and its settings.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tower_layer::Layer;

use super::call::SharedBackoff;
use super::service::Backoff;

/// What happens to calls to a service during its cooldown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DuringCooldown {
    /// They wait until they may be sent, if that is within the total time.
    #[default]
    Wait,
    /// They fail at once, with [`BackoffError::CoolingDown`](super::BackoffError::CoolingDown). One that was
    /// sent and refused before gets that refusal.
    Fail,
}

/// Makes a second body like the first, so that a request can be sent again.
pub trait CopyBody<B>: Clone {
    /// Another body with the same content; none if there cannot be one, and then the request is not
    /// retried.
    fn copy_body(&self, body: &B) -> Option<B>;
}

/// Clones bodies.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneBody;

impl<B: Clone> CopyBody<B> for CloneBody {
    fn copy_body(&self, body: &B) -> Option<B> {
        Some(body.clone())
    }
}

impl<B, F: Fn(&B) -> Option<B> + Clone> CopyBody<B> for F {
    fn copy_body(&self, body: &B) -> Option<B> {
        self(body)
    }
}

/// Adds a backoff to a service. Each service that it makes has its cooldowns; clones of a service share them.
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put onto a service"]
pub struct BackoffLayer<C = CloneBody> {
    settings: BackoffSettings,
    copy_body: C,
}

#[derive(Clone, Debug)]
pub(super) struct BackoffSettings {
    pub(super) attempts: u32,
    pub(super) total: Duration,
    pub(super) jitter: Duration,
    pub(super) longest_jitter: Duration,
    pub(super) max_cooldown: Duration,
    pub(super) budget: (u32, u32),
    pub(super) any_method: bool,
    pub(super) during_cooldown: DuringCooldown,
    pub(super) authorities: usize,
}

impl Default for BackoffLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl BackoffLayer {
    /// Three attempts within 30 seconds, up to 100 ms of jitter doubled at each attempt up to 10
    /// seconds, and retries for 10 % of the calls, of which ten may come at once.
    pub fn new() -> Self {
        let settings = BackoffSettings {
            attempts: 3,
            total: Duration::from_secs(30),
            jitter: Duration::from_millis(100),
            longest_jitter: Duration::from_secs(10),
            max_cooldown: Duration::from_secs(24 * 60 * 60),
            budget: (10, 10),
            any_method: false,
            during_cooldown: DuringCooldown::default(),
            authorities: 1_024,
        };
        Self { settings, copy_body: CloneBody }
    }

    /// Sends bodies again that this can make another of: `|body: &B| -> Option<B>`. Without it, bodies
    /// are cloned.
    pub fn copy_body<C>(self, copy_body: C) -> BackoffLayer<C> {
        BackoffLayer { settings: self.settings, copy_body }
    }
}

impl<C> BackoffLayer<C> {
    /// How often a request is sent at most, the first time included.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.settings.attempts = attempts;
        self
    }

    /// How long a call may wait in all. One that would have to wait longer is not kept waiting: it
    /// gets the refusal that there was, or fails if nothing was sent.
    pub fn total(mut self, total: Duration) -> Self {
        self.settings.total = total;
        self
    }

    /// How much jitter is added to the first wait, and at most. It doubles with each attempt.
    pub fn jitter(mut self, first: Duration, longest: Duration) -> Self {
        self.settings.jitter = first;
        self.settings.longest_jitter = longest;
        self
    }

    /// How many of a hundred calls may be retried, and how many retries may come at once after
    /// a quiet time.
    pub fn budget(mut self, percent: u32, at_once: u32) -> Self {
        self.settings.budget = (percent, at_once);
        self
    }

    /// Retries requests of any method. Without it, idempotent ones: GET, HEAD, OPTIONS, TRACE,
    /// PUT and DELETE.
    pub fn any_method(mut self) -> Self {
        self.settings.any_method = true;
        self
    }

    /// What happens to calls to a service during its cooldown: by default they wait.
    pub fn during_cooldown(mut self, during_cooldown: DuringCooldown) -> Self {
        self.settings.during_cooldown = during_cooldown;
        self
    }

    /// How long a cooldown lasts at most, whatever a service asks: a day by default. So a service that
    /// sends milliseconds by mistake is not blocked for ever.
    pub fn max_cooldown(mut self, longest: Duration) -> Self {
        self.settings.max_cooldown = longest;
        self
    }

    /// How many cooldowns are remembered: 1,024 by default.
    pub fn authorities(mut self, most: usize) -> Self {
        self.settings.authorities = most;
        self
    }
}

impl BackoffSettings {
    /// Whether a request of this method may be sent twice.
    pub(super) fn may_repeat(&self, method: &Method) -> bool {
        self.any_method || method.is_idempotent()
    }

    /// How much jitter is added to the wait after an attempt, counted from 1.
    pub(super) fn chance(&self, attempt: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
        self.jitter.saturating_mul(doubled).min(self.longest_jitter)
    }
}

impl<S, C: Clone> Layer<S> for BackoffLayer<C> {
    type Service = Backoff<S, C>;

    fn layer(&self, inner: S) -> Backoff<S, C> {
        let shared = Arc::new(SharedBackoff::new(self.settings.clone()));
        Backoff::new(inner, self.copy_body.clone(), shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_doubles_up_to_a_bound() {
        let layer =
            BackoffLayer::new().jitter(Duration::from_millis(100), Duration::from_millis(500));
        let chances = [1, 2, 3, 4, 40, u32::MAX].map(|attempt| {
            u64::try_from(layer.settings.chance(attempt).as_millis()).expect("short")
        });
        assert_eq!(chances, [100, 200, 400, 500, 500, 500]);
    }
}
