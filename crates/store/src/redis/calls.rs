//! Carries operations to a server and their results back: one call of the script for all of a slot, redirected to the
//! server that a counter has moved to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, RedisError, Value, cmd};
use smallvec::SmallVec;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::address::Address;
use super::node::{CallFailure, RedisNode};
use super::router::Router;
use super::script::{self, ScriptCall, ScriptClock};
use super::slot::slot;
use crate::remote::clock::Moment;
use crate::remote::{Job, OwnedOp};
use crate::{OpOutcome, StoreError, StoreErrorKind};

/// How often a call is redirected before it fails.
const MAX_REDIRECTS: usize = 4;
/// The interval between retries while servers disagree, or the keys of a slot are on both sides of a migration.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// How many seconds states are kept beyond their expiry: clocks of replicas differ.
const EXTRA_TTL: u32 = 2;
/// How many seconds states of recorded traffic are kept beyond their expiry: its clock may be slower.
const EXTRA_TTL_RECORDED: u32 = 3_600;

const RECORD_SCRIPT: &str = include_str!("once_record.lua");

/// Settles jobs on a server, and completes them.
pub(super) async fn settle(router: Arc<Router>, node: Arc<RedisNode>, jobs: Vec<Job>) {
    let is_one_call = !router.is_cluster()
        && !router.settings.uses_callers_clock
        && !jobs.iter().any(|job| matches!(job.op, OwnedOp::Record(_)));
    if is_one_call {
        return settle_together(router, node, jobs).await;
    }
    for jobs in runs(jobs, router.settings.uses_callers_clock) {
        let (records, jobs): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| matches!(job.op, OwnedOp::Record(_)));
        let mut groups: BTreeMap<u16, Vec<Job>> = BTreeMap::new();
        for job in jobs {
            // Without a cluster all can go together.
            let first = job.op.names().next().filter(|_| router.is_cluster());
            groups.entry(first.map_or(0, slot)).or_default().push(job);
        }
        let mut under_way = JoinSet::new();
        for job in records {
            under_way.spawn(run_alone(Arc::clone(&router), Arc::clone(&node), job));
        }
        let last = groups.pop_last();
        for (_, jobs) in groups {
            under_way.spawn(settle_together(Arc::clone(&router), Arc::clone(&node), jobs));
        }
        if let Some((_, jobs)) = last {
            settle_together(Arc::clone(&router), Arc::clone(&node), jobs).await;
        }
        while under_way.join_next().await.is_some() {}
    }
}

/// Jobs that one call can settle. A call has one time: with the callers' clock, jobs of another time are another run.
fn runs(mut jobs: Vec<Job>, uses_callers_clock: bool) -> SmallVec<[Vec<Job>; 1]> {
    let mut runs = SmallVec::new();
    while uses_callers_clock && let Some(first) = jobs.first() {
        let now = first.now;
        let later = jobs.split_off(jobs.iter().take_while(|job| job.now == now).count());
        runs.push(std::mem::replace(&mut jobs, later));
    }
    if !jobs.is_empty() {
        runs.push(jobs);
    }
    runs
}

/// One call for all of these.
async fn settle_together(router: Arc<Router>, node: Arc<RedisNode>, mut jobs: Vec<Job>) {
    if let Err(failure) = node.is_ready().await {
        return fail(&router, &node, jobs, failure.into());
    }
    // A caller that stopped waiting while the connection was made is not charged.
    jobs.retain(|job| !job.is_cancelled());
    if jobs.is_empty() {
        return;
    }
    let uses_ours = router.settings.uses_callers_clock;
    let (clock, extra) = if uses_ours {
        (ScriptClock::Caller, EXTRA_TTL_RECORDED)
    } else {
        (ScriptClock::Server, EXTRA_TTL)
    };
    let asked_at = jobs.first().map(|job| job.now).unwrap_or_default();
    let ops = jobs.iter().map(|job| &job.op);
    let call = ScriptCall::new(ops, asked_at, clock, extra, &router.url.prefix);
    let run = router.run(Arc::clone(&node), |form| {
        let mut command = match form {
            ScriptForm::Digest => {
                let mut command = cmd("EVALSHA");
                command.arg(router.digest());
                command
            }
            ScriptForm::Source => {
                let mut command = cmd("EVAL");
                command.arg(&*router.script);
                command
            }
        };
        call.write(&mut command);
        command
    });
    let results = run.await.and_then(|value| call.read(&value));
    drop(call);
    match results {
        Ok(results) => {
            node.breaker.call_ended(None);
            if !uses_ours && let Some(Ok(OpOutcome::Settled(settlement))) = results.first() {
                node.breaker.note_clock(settlement.now);
            }
            for (job, result) in jobs.into_iter().zip(results) {
                if result.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::Unavailable) {
                    router.poll_soon();
                }
                job.finish(result);
            }
        }
        Err(error) => fail(&router, &node, jobs, error),
    }
}

fn fail(router: &Router, node: &RedisNode, jobs: Vec<Job>, error: StoreError) {
    node.breaker.call_ended(Some(&error));
    router.poll_soon();
    let kind = error.kind();
    let mut error = Some(error);
    for job in jobs {
        // One of the callers gets the cause.
        job.finish(Err(error.take().unwrap_or_else(|| kind.into())));
    }
}

/// Reads or forgets the record of an idempotency key, which is rare.
async fn run_alone(router: Arc<Router>, node: Arc<RedisNode>, job: Job) {
    let OwnedOp::Record(record) = &job.op else { return };
    let keys: Vec<String> =
        job.op.names().map(|name| script::key(&router.url.prefix, name)).collect();
    let run = router.run(node, |_| {
        let mut command = cmd("EVAL");
        command.arg(RECORD_SCRIPT).arg(keys.len()).arg(&keys);
        command.arg(&record.note).arg(u8::from(record.is_forgotten));
        command
    });
    let result = match run.await {
        Ok(Value::Int(found)) => Ok(OpOutcome::Record { is_there: found > 0 }),
        Ok(_) => Err(StoreErrorKind::Corrupt.into()),
        Err(error) => Err(error),
    };
    job.finish(result);
}

/// How the script is sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum ScriptForm {
    /// By its digest.
    Digest,
    /// As source, for servers that have not cached it.
    Source,
}

impl Router {
    /// Calls the server that has the counters, and searches for it until the timeout.
    pub(super) async fn run(
        &self,
        mut node: Arc<RedisNode>,
        command: impl Fn(ScriptForm) -> Cmd,
    ) -> Result<Value, StoreError> {
        let began = Moment::now();
        let (mut form, mut asks, mut hops) = (ScriptForm::Digest, false, 0);
        while began.elapsed() < self.settings.deadline {
            let error = match node.call(&command(form), asks).await {
                Ok(value) => return Ok(value),
                Err(CallFailure::Silent(error)) => return Err(error),
                Err(CallFailure::Said(error)) => error,
            };
            let moved = error
                .redirect_node()
                .and_then(|(place, _slot)| self.node_at(&Address::named_by(&node.address, place)?));
            match (error.code(), moved) {
                (Some("NOSCRIPT"), _) => form = ScriptForm::Source,
                (Some("MOVED"), Some(owner)) => {
                    self.poll_soon();
                    (node, asks, hops) = (owner, false, hops + 1);
                }
                (Some("ASK"), Some(heir)) => (node, asks, hops) = (heir, true, hops + 1),
                (Some("TRYAGAIN"), _) => hops = MAX_REDIRECTS,
                _ => return Err(refusal(&error)),
            }
            if hops >= MAX_REDIRECTS {
                sleep(RETRY_INTERVAL).await;
            }
        }
        Err(StoreError::new(StoreErrorKind::Unavailable, "too many redirects"))
    }
}

impl From<CallFailure> for StoreError {
    fn from(failure: CallFailure) -> Self {
        match failure {
            CallFailure::Said(error) => refusal(&error),
            CallFailure::Silent(error) => error,
        }
    }
}

fn refusal(error: &RedisError) -> StoreError {
    let (code, detail) = (error.code().unwrap_or_default(), error.detail().unwrap_or_default());
    script::failed(format!("{code} {detail}").trim_end())
}
