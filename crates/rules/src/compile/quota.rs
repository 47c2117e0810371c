//! The bounds of a quota in words, and the one bound that is the policy's own.

use tollgate_core::{Algorithm, Limit, Quota, QuotaError};

use crate::compile::flaw::Flaw;

/// The largest limit of a log, which remembers every admission.
pub(crate) const MAX_LOG_LIMIT: u64 = 10_000;

/// Derives the limit. A log is bounded unless its author says otherwise.
pub(crate) fn compile_quota(quota: Quota, unbounded_log: bool) -> Result<Limit, Flaw> {
    let limit = quota.compile().map_err(quota_flaw)?;
    let is_log = quota.algorithm == Algorithm::SlidingWindowLog;
    if is_log && !unbounded_log && quota.limit.saturating_add(quota.grace) > MAX_LOG_LIMIT {
        return Err(Flaw::new(
            format!("sliding_window_log remembers every admission, at most {MAX_LOG_LIMIT}"),
            "use sliding_window_counter, which needs two numbers and errs by very little",
        )
        .within("limit"));
    }
    Ok(limit)
}

fn quota_flaw(error: QuotaError) -> Flaw {
    let (field, advice) = match error {
        QuotaError::LimitTooLarge => ("limit", "leave the rule out to allow everything"),
        QuotaError::WindowOutOfRange => ("window_seconds", "write seconds from 0.001 to 31622400"),
        QuotaError::BurstWithoutBucket => {
            ("burst", "remove the burst, or use gcra, which admits a burst and then a steady rate")
        }
        QuotaError::BurstZero | QuotaError::BurstTooLarge => {
            ("burst", "leave it out to admit the limit at once")
        }
        QuotaError::GraceTooLarge => ("soft.grace", "tolerate a small part of the limit"),
        QuotaError::DelayWithoutBucket => {
            ("action", "use leaky_bucket to hold requests back, or action: reject")
        }
        QuotaError::CalendarWithoutFixedWindow => {
            ("algorithm", "write algorithm: fixed_window, or a window of one length like 1d")
        }
        QuotaError::WindowNotOfCalendar => {
            ("window_seconds", "change the limit alone, or write another rule for the client")
        }
        QuotaError::DelayTooLong => ("throttle.max_delay_ms", "hold requests for seconds at most"),
    };
    Flaw::new(error.to_string(), advice).within(field)
}
