//! Envoy's rate limit service, apart from how it is spoken to: what is asked, how it is judged, and
//! what is answered.
//!
//! A domain that is in the files of envoyproxy/ratelimit is judged by them ([`files`]); any other by
//! our own rules ([`own`]). Either way all descriptors of a request are charged, or none.

mod answer;
mod files;
mod own;
pub(crate) mod source;
pub(crate) mod values;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;
use tollgate::store::Store as _;
use tollgate::{Decision, Limiter, Question, Stopwatch};
use tollgate_import::envoy::{Descriptor, Unit};

pub(crate) use answer::{Answer, Status};

use crate::metrics::Entry;
use crate::problem::Problem;
use crate::state::{ServerState, SharedStore};

/// The most descriptors of one request. Envoy sends a handful.
const MOST_DESCRIPTORS: usize = 1_000;

/// The largest message that is read, or `limits.body_bytes` if that is more. Envoy copies header fields
/// of its clients into it, 60 KiB of them by default, as often as it has descriptors for them.
pub(crate) const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// What is asked about a request.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) domain: &'a str,
    pub(crate) descriptors: Vec<AskedDescriptor<'a>>,
}

/// One view of the request.
#[derive(Debug)]
pub(crate) struct AskedDescriptor<'a> {
    pub(crate) entries: SmallVec<[(&'a str, &'a str); 4]>,
    /// A limit that the request brings along.
    pub(crate) limit: Option<CarriedLimit>,
    /// What it costs; 0 to look.
    pub(crate) hits: u64,
}

/// A limit that a request brings along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarriedLimit {
    pub(crate) requests_per_unit: u32,
    /// Missing if it is none that is known.
    pub(crate) unit: Option<Unit>,
}

/// What a descriptor costs: its own hits, or else those of the request, which are at least one.
pub(crate) fn hits(own: Option<u64>, of_request: u32) -> u64 {
    own.unwrap_or_else(|| u64::from(of_request.max(1)))
}

/// Judges a request.
pub(crate) async fn judge(app: &ServerState, ask: &Ask<'_>) -> Result<Answer, Problem> {
    check(ask)?;
    let stopwatch = Stopwatch::start();
    let set = app.envoy.source.loaded.load_full();
    let descriptors: SmallVec<[Descriptor<'_>; 8]> = ask
        .descriptors
        .iter()
        .map(|asked| Descriptor { entries: &asked.entries, carries_limit: asked.limit.is_some() })
        .collect();
    let answer = match set.config.judge(ask.domain, &descriptors) {
        Some(verdicts) => files::judge(app, &set, ask, &verdicts).await?,
        None => own::judge(app, ask).await?,
    };
    app.metrics.checks.observe(stopwatch.elapsed());
    // A request whose descriptors all look is counted when it is charged.
    if ask.descriptors.iter().any(|asked| asked.hits > 0) {
        app.metrics.requests.count(Entry::Envoy, answer.outcome);
    }
    Ok(answer)
}

/// The same without waiting, if the counters are in memory: then judging never waits, and need not be
/// kept anywhere. `None`: they are not, and nothing was judged.
pub(crate) fn judge_at_once(app: &ServerState, ask: &Ask<'_>) -> Option<Result<Answer, Problem>> {
    if !app.limiter.store().is_immediate() {
        return None;
    }
    let judging = pin!(judge(app, ask));
    match judging.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(judged) => Some(judged),
        // Never so.
        Poll::Pending => Some(Err(Problem::internal("counters in memory had to wait"))),
    }
}

/// Asks a limiter, without waiting where the counters are in memory.
fn decide<'a>(
    limiter: &'a Limiter<SharedStore>,
    question: Question<'_>,
) -> impl Future<Output = Decision> + Send + use<'a> {
    let decided = limiter.answer_at_once(question).ok_or_else(|| limiter.answer(question));
    async move {
        match decided {
            Ok(decision) => decision,
            Err(waiting) => waiting.await,
        }
    }
}

/// Checks what Envoy's operator decides. What Envoy's clients decide, the length and the bytes of texts,
/// is never an error: Envoy lets requests pass whose check failed.
fn check(ask: &Ask<'_>) -> Result<(), Problem> {
    let refuse = |detail: String| Err(Problem::bad_request("invalid_descriptors", detail));
    if ask.domain.is_empty() {
        return refuse("domain: it is empty; name the domain of the limits".to_owned());
    }
    if ask.descriptors.is_empty() {
        return refuse("descriptors: there is none; send at least one".to_owned());
    }
    if ask.descriptors.len() > MOST_DESCRIPTORS {
        return refuse(format!(
            "descriptors: at most {MOST_DESCRIPTORS} are allowed, these are {}",
            ask.descriptors.len()
        ));
    }
    for (place, descriptor) in ask.descriptors.iter().enumerate() {
        if descriptor.entries.is_empty() {
            return refuse(format!("descriptors[{place}].entries: there is none"));
        }
        if descriptor.limit.is_some_and(|limit| limit.unit.is_none()) {
            return refuse(format!(
                "descriptors[{place}].limit.unit: write SECOND, MINUTE, HOUR, DAY, MONTH or YEAR"
            ));
        }
    }
    Ok(())
}
