//! Traffic through counters in memory or in a store that `serve` could count in, with a progress bar.

use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::store::{AnyStore, RemoteSettings, StoreUrl};
use tollgate::{Clock as _, Decision, Limiter, ManualClock, Micros, Policy, SystemClock};
use tollgate_simulate::traffic::{RecordView, Traffic};
use tollgate_simulate::{Doubt, Recorded, ReplayOptions, Stopped};

use super::namespaced_store::NamespacedStore;
use crate::failure::Failure;
use crate::terminal::{count, progress};

/// No request waits for a simulation, so a store may be slow.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often the progress bar moves.
const STRIDE: usize = 1 << 14;

/// A sentence about what makes a result doubtful.
pub(super) fn sentence(doubt: Doubt) -> String {
    let forgotten = count(doubt.forgotten, "counter");
    format!("forgot {forgotten} for lack of memory: more was allowed than should be\n")
}

/// Runs something that replays traffic, with a progress bar that starts anew with each replay.
pub(crate) fn with_progress<T>(
    traffic: &Traffic,
    run: impl FnOnce(&mut dyn FnMut(usize) -> Result<(), Stopped>) -> T,
) -> T {
    let bar = progress(Some(traffic.len() as u64), "replaying", "requests");
    let done = run(&mut |replayed| {
        if replayed.is_multiple_of(STRIDE) {
            bar.set_position(replayed as u64);
        }
        Ok(())
    });
    bar.finish_and_clear();
    done
}

/// Checks every request by counters in that store, and shows each decision to `see`.
pub(super) fn replay<'t>(
    policy: Policy,
    traffic: &'t Traffic,
    url: &StoreUrl,
    mut see: impl FnMut(RecordView<'t>, &Decision) -> Result<(), Failure>,
) -> Result<Option<Doubt>, Failure> {
    with_progress(traffic, |watch| {
        let mut replayed = 0;
        let mut see = |record: RecordView<'t>, decision: &Decision| {
            // A progress bar stops nothing.
            let _ = watch(replayed);
            replayed += 1;
            see(record, decision)
        };
        if url.is_shared() {
            replay_in(policy, traffic, url, &mut see).map(|()| None)
        } else {
            tollgate_simulate::replay(policy, traffic, &ReplayOptions::default(), see)
        }
    })
}

/// Checks every request by counters across a network.
fn replay_in<'t>(
    policy: Policy,
    traffic: &'t Traffic,
    url: &StoreUrl,
    see: &mut dyn FnMut(RecordView<'t>, &Decision) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let runtime = Runtime::new()?;
    // Stores across a network need a runtime.
    let _inside = runtime.enter();
    let settings = RemoteSettings {
        deadline: DEADLINE,
        uses_callers_clock: true,
        deny_cache: Micros::ZERO,
        ..RemoteSettings::default()
    };
    // The size is that of a store in memory.
    let store = AnyStore::open(url, 0, &settings).map_err(Failure::usage)?;
    if let AnyStore::Redis(store) = &store
        && !runtime.block_on(store.inner().found(DEADLINE))
    {
        return Err(Failure::usage(format!("cannot count in {url}: no server responds there")));
    }
    let store = NamespacedStore::new(store, SystemClock.now());
    let clock = ManualClock::default();
    let limiter = Limiter::builder().policy(policy).store(store).clock(clock.clone()).build();
    for record in traffic.iter() {
        clock.set(record.time());
        let request = Recorded(record);
        let decision = runtime.block_on(limiter.check(&request).into_future());
        if let Some(why) = decision.degraded() {
            return Err(Failure::usage(format!("cannot count in {url}: {why}")));
        }
        see(record, &decision)?;
    }
    Ok(())
}
