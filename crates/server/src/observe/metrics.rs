//! The metrics of this server, besides those of the limiter.

mod encode;
mod format;
mod pages;
mod requests;
mod servers;
mod snapshot;
mod take;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use http::StatusCode;
use tollgate::Timestamp;
use tollgate::identity::{TokenProblem, TokenVerdict};
use tollgate::store::Histogram;
use tollgate_gateway::GatewayCounts;

pub(crate) use self::format::MetricsFormat;
use self::pages::Pages;
pub(crate) use self::requests::{EntryPoint, RequestCounts, RequestOutcome, Requests, Unfinished};
pub(crate) use self::snapshot::MetricsSnapshot;

/// Counters of requests, responses, calls and tokens.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// How requests ended.
    pub(crate) requests: Requests,
    /// How long checks take.
    pub(crate) checks: Histogram,
    /// Responses by class: 2xx, 4xx other than 429, 429, 5xx.
    responses: [AtomicU64; RESPONSE_CLASSES.len()],
    /// Responses to gRPC calls by their code.
    calls: [AtomicU64; CALL_CODES.len()],
    /// Tokens of clients: verified ones, and rejected ones by their problem.
    tokens: [AtomicU64; TOKEN_VERDICTS],
    /// The counters of the gateway.
    pub(crate) gateway: Arc<GatewayCounts>,
    /// How far the clock of the last caller that sent its time was ahead of this server's.
    skew_micros: AtomicI64,
    /// The responses of `/metrics`.
    pub(crate) pages: Pages,
}

/// The codes of gRPC, by their numbers.
const CALL_CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// A token is verified, or has a problem.
const TOKEN_VERDICTS: usize = 1 + TokenProblem::ALL.len();

const RESPONSE_CLASSES: [&str; 4] = ["2xx", "4xx", "429", "5xx"];

impl Metrics {
    /// Counts a response to a gRPC call.
    #[inline]
    pub(crate) fn count_call(&self, code: tonic::Code) {
        if let Some(count) = usize::try_from(i32::from(code)).ok().and_then(|at| self.calls.get(at))
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Responses to gRPC calls so far, by the codes that occurred.
    pub(crate) fn calls(&self) -> Vec<(&'static str, u64)> {
        let counts = self.calls.iter().map(|count| count.load(Ordering::Relaxed));
        CALL_CODES
            .into_iter()
            .zip(counts)
            .filter(|(code, count)| *count > 0 || *code == "OK")
            .collect()
    }

    /// Counts the token of a client by its verdict, if it had one.
    pub(crate) fn count_token(&self, verdict: TokenVerdict) {
        let at = token_verdicts().position(|known| known == verdict);
        if let Some(count) = at.and_then(|at| self.tokens.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tokens of clients so far, by verdict.
    pub(crate) fn tokens(&self) -> Vec<(&'static str, u64)> {
        let counts = self.tokens.iter().map(|count| count.load(Ordering::Relaxed));
        token_verdicts().map(TokenVerdict::name).zip(counts).collect()
    }

    /// Compares the clock of a caller with this server's.
    pub(crate) fn note_skew(&self, now: Timestamp, seconds: i64, nanos: i32) {
        let theirs = seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanos) / 1_000);
        let skew = theirs.saturating_sub(now.as_micros().cast_signed());
        self.skew_micros.store(skew, Ordering::Relaxed);
    }

    /// How far the clock of the last caller that sent its time was ahead of this server's, in seconds.
    pub(crate) fn skew_seconds(&self) -> f64 {
        self.skew_micros.load(Ordering::Relaxed) as f64 / 1e6
    }

    #[inline]
    pub(crate) fn count_response(&self, status: StatusCode) {
        let class = match status.as_u16() {
            429 => 2,
            400..=499 => 1,
            500.. => 3,
            _ => 0,
        };
        self.responses[class].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn responses(&self) -> [u64; RESPONSE_CLASSES.len()] {
        std::array::from_fn(|class| self.responses[class].load(Ordering::Relaxed))
    }
}

fn token_verdicts() -> impl Iterator<Item = TokenVerdict> {
    let problems = TokenProblem::ALL.into_iter().map(TokenVerdict::Rejected);
    std::iter::once(TokenVerdict::Verified).chain(problems)
}
