//! governor keyed by `String`, as its users get it: its default map, hasher and clock.

use std::num::NonZeroU32;
use std::time::Duration;

use ::governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::{LIMIT, USED, WINDOW_SECONDS};
use crate::Fallible;
use crate::keys::KeyText;

#[derive(Debug)]
pub(crate) struct Governor(DefaultKeyedRateLimiter<String>);

impl Governor {
    pub(crate) fn with_counters(count: u64) -> Fallible<Self> {
        let burst = NonZeroU32::new(LIMIT).ok_or("a limit of zero")?;
        let used = NonZeroU32::new(USED).ok_or("a use of zero")?;
        let period = Duration::from_secs(WINDOW_SECONDS.into()) / LIMIT;
        let quota = Quota::with_period(period).ok_or("a period of zero")?.allow_burst(burst);
        let limiter = RateLimiter::keyed(quota);
        let mut text = KeyText::new();
        for number in 0..count {
            limiter.check_key_n(text.of(number), used)?.map_err(|wait| wait.to_string())?;
        }
        Ok(Self(limiter))
    }

    #[inline]
    pub(crate) fn check(&self, key: &String) -> bool {
        self.0.check_key(key).is_ok()
    }
}
