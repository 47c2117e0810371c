//! throttlecrab with room for all keys from the start, given the time of day as its users give it.

use ::throttlecrab::{RateLimiter, Store};

use super::{LIMIT, USED, WINDOW_SECONDS};
use crate::keys::KeyText;
use crate::stopwatch::system_time;

pub(crate) struct Throttlecrab<S: Store>(RateLimiter<S>);

impl<S: Store> Throttlecrab<S> {
    pub(crate) fn with_counters(store: S, count: u64) -> Self {
        let mut peer = Self(RateLimiter::new(store));
        let mut text = KeyText::new();
        for number in 0..count {
            peer.charge(text.of(number), USED);
        }
        peer
    }

    #[inline]
    pub(crate) fn check(&mut self, key: &str) -> bool {
        self.charge(key, 1)
    }

    #[inline]
    fn charge(&mut self, key: &str, cost: u32) -> bool {
        let (limit, window) = (i64::from(LIMIT), i64::from(WINDOW_SECONDS));
        let answer = self.0.rate_limit(key, limit, limit, window, i64::from(cost), system_time());
        answer.is_ok_and(|(allowed, _)| allowed)
    }
}
