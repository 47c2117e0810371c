//! Limits on calls of this server, counted by its own engine.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::{HeaderMap, StatusCode};
use tollgate::http::{HeaderFamilies, write_fields};
use tollgate::{Attribute, CheckTarget, Decision, Limiter, MemoryStore, Policy, Request};

use crate::admin::auth::Principal;
use crate::edge::http::problem::Problem;

/// Memory for the counters of tokens and addresses; beyond it, several share a counter.
const BYTES: usize = 4 << 20;
/// Check calls are counted several at a time, so that the limit on them costs little: at most this
/// fraction of the limit, which is also its error.
const SHARES: u64 = 4_096;
/// How many check calls are counted at a time, at most.
const MAX_AT_A_TIME: u64 = 64;
/// How many wrong tokens one address may send in a minute.
const FAILED_LOGINS: u64 = 20;
/// How many status calls one address may make in a second.
const STATUS_CALLS: u64 = 50;

/// How often the server may be called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardLimits {
    /// Check calls per second, of all callers; 0 switches the limit off.
    pub(crate) check_calls: u64,
    /// Admin calls per minute and token that only read.
    pub(crate) admin_reads: u64,
    /// Admin calls per minute and token that change something.
    pub(crate) admin_writes: u64,
    /// Bytes per hour and tenant that its administrators write.
    pub(crate) tenant_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Guard {
    limiter: Limiter,
    /// How many check calls are counted at a time; 0 if they are not counted.
    at_a_time: u64,
    /// Check calls that were counted before they arrived.
    counted_ahead: AtomicU64,
}

impl Guard {
    pub(crate) fn new(limits: GuardLimits) -> Self {
        let policy = policy(limits).unwrap_or_default();
        let store = MemoryStore::with_bytes(BYTES);
        let limiter = Limiter::builder().policy(policy).store(store).build();
        let at_a_time = (limits.check_calls / SHARES).clamp(1, MAX_AT_A_TIME);
        let at_a_time = if limits.check_calls == 0 { 0 } else { at_a_time };
        Self { limiter, at_a_time, counted_ahead: AtomicU64::new(0) }
    }

    /// Counts a call of the check API.
    #[inline]
    pub(crate) fn check_call(&self) -> Result<(), Problem> {
        let take_one = |counted: u64| counted.checked_sub(1);
        if self.at_a_time == 0
            || self.counted_ahead.fetch_update(Relaxed, Relaxed, take_one).is_ok()
        {
            return Ok(());
        }
        self.count_ahead()
    }

    #[cold]
    fn count_ahead(&self) -> Result<(), Problem> {
        // Only the global rule `check_calls` applies to a request without identifiers.
        let decision = self.limiter.check(&Request::new().cost(self.at_a_time)).now();
        if !decision.is_allowed() {
            return Err(refusal(&decision));
        }
        self.counted_ahead.fetch_add(self.at_a_time - 1, Relaxed);
        Ok(())
    }

    /// Counts a call of the admin API. Returns header fields with what is left.
    pub(crate) fn admin_call(
        &self,
        principal: &Principal,
        is_write: bool,
    ) -> Result<HeaderMap, Problem> {
        let rule = if is_write { "admin_writes" } else { "admin_reads" };
        let request = Request::new().with(Attribute::Custom("token"), principal.name());
        passed(&self.limiter.check(CheckTarget::Rule(rule, &request)).now())
    }

    /// Counts bytes that an administrator of a tenant wants to write. Refused bytes are not charged.
    pub(crate) fn tenant_write(&self, tenant: &str, bytes: usize) -> Result<(), Problem> {
        let request = Request::new().with(Attribute::Custom("tenant"), tenant).cost(bytes as u64);
        let decision = self.limiter.check(CheckTarget::Rule("tenant_bytes", &request)).now();
        passed(&decision).map(drop)
    }

    /// Counts a wrong token; an error if there were too many. Valid tokens are not counted, so that no
    /// client can lock others out.
    pub(crate) fn wrong_token(&self, address: IpAddr) -> Result<(), Problem> {
        self.by_address("failed_logins", address)
    }

    /// Counts a status call, which needs no token.
    pub(crate) fn status_call(&self, address: IpAddr) -> Result<(), Problem> {
        self.by_address("status_calls", address)
    }

    fn by_address(&self, rule: &str, address: IpAddr) -> Result<(), Problem> {
        let address = address.to_string();
        let request = Request::new().ip(&address);
        passed(&self.limiter.check(CheckTarget::Rule(rule, &request)).now()).map(drop)
    }
}

fn passed(decision: &Decision) -> Result<HeaderMap, Problem> {
    if decision.is_allowed() {
        let mut headers = HeaderMap::new();
        write_fields(decision, HeaderFamilies::default(), &mut headers);
        return Ok(headers);
    }
    Err(refusal(decision))
}

fn refusal(decision: &Decision) -> Problem {
    let rule = decision.binding().map_or("limit", |binding| match &*binding.rule.id {
        "check_calls" => "limits.check_calls_per_second",
        "admin_reads" => "limits.admin_reads_per_minute",
        "admin_writes" => "limits.admin_writes_per_minute",
        "tenant_bytes" => "limits.tenant_write_bytes_per_hour",
        "status_calls" => "status calls per second and address",
        _ => "wrong tokens per minute and address",
    });
    let detail = match rule {
        "limits.tenant_write_bytes_per_hour" => {
            format!("this tenant writes more than the server allows ({rule})")
        }
        _ => format!("this server is called more often than it allows ({rule})"),
    };
    let mut problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_calls", detail);
    write_fields(decision, HeaderFamilies::default(), problem.headers_mut());
    problem
}

fn policy(limits: GuardLimits) -> Result<Policy, Vec<tollgate::Problem>> {
    let GuardLimits { check_calls, admin_reads, admin_writes, tenant_bytes } = limits;
    Policy::from_text(&format!(
        "rules:
         - {{rule_id: check_calls, limit: {check_calls}, window: 1s, algorithm: gcra, identifier_type: global}}
         - {{rule_id: admin_reads, limit: {admin_reads}, window: 1m, identifier_type: 'attribute:token'}}
         - {{rule_id: admin_writes, limit: {admin_writes}, window: 1m, identifier_type: 'attribute:token'}}
         - {{rule_id: tenant_bytes, limit: {tenant_bytes}, window: 1h, identifier_type: 'attribute:tenant'}}
         - {{rule_id: failed_logins, limit: {FAILED_LOGINS}, window: 1m, identifier_type: ip}}
         - {{rule_id: status_calls, limit: {STATUS_CALLS}, window: 1s, algorithm: gcra, identifier_type: ip}}",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(limits: GuardLimits) -> Guard {
        Guard::new(limits)
    }

    fn limits(check_calls: u64, admin_reads: u64, admin_writes: u64) -> GuardLimits {
        GuardLimits { check_calls, admin_reads, admin_writes, tenant_bytes: 1_000 }
    }

    #[test]
    fn any_limits_make_a_valid_policy() {
        for figure in [0, 1, 100_000, u64::from(u32::MAX)] {
            let limits = GuardLimits {
                check_calls: figure,
                admin_reads: figure,
                admin_writes: figure,
                tenant_bytes: figure << 10,
            };
            assert!(policy(limits).is_ok(), "{figure}");
        }
    }

    #[test]
    fn each_limit_refuses_independently() {
        let guard = guard(limits(2, 3, 1));
        let admin = |is_write| guard.admin_call(&Principal::Admin, is_write).is_ok();
        assert_eq!([(); 3].map(|()| guard.check_call().is_ok()), [true, true, false]);
        assert_eq!([(); 4].map(|()| admin(false)), [true, true, true, false]);
        assert_eq!([(); 2].map(|()| admin(true)), [true, false]);
        assert!(guard.admin_call(&Principal::Caller, true).is_ok(), "another token");
    }

    #[test]
    fn bytes_are_counted_for_each_tenant() {
        let guard = guard(limits(0, 1, 1));
        assert!(guard.tenant_write("acme", 600).is_ok());
        let mut refused = guard.tenant_write("acme", 401).expect_err("more than is left");
        assert!(refused.detail().contains("tenant_write_bytes_per_hour"), "{}", refused.detail());
        assert!(refused.headers_mut().contains_key("retry-after"));
        assert!(guard.tenant_write("acme", 400).is_ok(), "what was refused costs nothing");
        assert!(guard.tenant_write("acme", 1).is_err());
        assert!(guard.tenant_write("globex", 1_000).is_ok(), "another tenant");
    }

    #[test]
    fn a_refusal_has_retry_after() {
        let guard = guard(limits(1, 0, 0));
        let mut refused =
            guard.check_call().and_then(|()| guard.check_call()).expect_err("the second");
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(refused.detail().contains("check_calls_per_second"), "{}", refused.detail());
        assert_eq!(refused.headers_mut()["retry-after"], "1");
    }

    #[test]
    fn zero_switches_counting_off() {
        let guard = guard(limits(0, 1, 1));
        assert!((0..1_000).all(|_| guard.check_call().is_ok()));
    }

    #[test]
    fn wrong_tokens_are_limited_per_address() {
        let guard = guard(limits(0, 1, 1));
        let (guesser, other) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        for _ in 0..FAILED_LOGINS {
            assert!(guard.wrong_token(guesser).is_ok());
        }
        let mut refused = guard.wrong_token(guesser).expect_err("one too many");
        assert!(refused.headers_mut().contains_key("retry-after"));
        assert!(guard.wrong_token(other).is_ok());
    }
}
