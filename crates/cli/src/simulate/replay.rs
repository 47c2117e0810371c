//! Traffic through a limiter, one request after the other, at the time each was made.

use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::store::{AnyStore, RemoteSettings, StoreUrl};
use tollgate::{
    Attribute, Attributes, Checked, Clock as _, Decision, Limiter, ManualClock, MemoryStore,
    Micros, Policy, SystemClock,
};

use super::namespaced_store::NamespacedStore;
use crate::failure::Failure;
use crate::terminal::{count, progress};
use crate::traffic::{RecordView, Traffic};

/// What an inline rule counts a trace by.
pub(super) const TRACE_KEY: &str = "attribute:key";
/// The name of that attribute.
const KEY: &str = "key";
/// Enough for tens of millions of clients: a simulation should forget none.
const STORE_BYTES: usize = 4 << 30;
/// No request waits for a simulation, so a store may be slow.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often the progress bar moves.
const STRIDE: usize = 1 << 14;

/// A recorded request as rules see it. The key of a trace stands for a missing user, and the client of a request for
/// a missing key.
pub(super) struct Recorded<'a>(pub(super) RecordView<'a>);

impl Attributes for Recorded<'_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        let record = self.0;
        match attribute {
            Attribute::UserId => record.user().or(record.key()),
            Attribute::ApiKey => record.api_key(),
            Attribute::Ip => record.ip(),
            Attribute::Tenant => record.tenant(),
            Attribute::Host => record.host(),
            Attribute::Path => record.path(),
            Attribute::Method => record.method(),
            Attribute::Tier => record.tier(),
            Attribute::Header(name) => record.header(name),
            Attribute::Claim(_) => None,
            Attribute::Custom(KEY) => record
                .key()
                .or_else(|| record.attribute(KEY))
                .or_else(|| record.user())
                .or_else(|| record.api_key())
                .or_else(|| record.ip())
                .or_else(|| record.tenant()),
            Attribute::Custom(name) => record.attribute(name),
        }
    }

    fn cost(&self) -> u64 {
        self.0.cost()
    }
}

/// The state of the store at the end of the traffic.
pub(crate) struct Replayed {
    /// Counters that were forgotten because memory was full, which makes the result doubtful.
    forgotten: u64,
}

impl Replayed {
    /// A sentence about what makes the result doubtful, if anything does.
    pub(crate) fn doubt(&self) -> Option<String> {
        let forgotten = count(self.forgotten, "counter");
        (self.forgotten > 0).then(|| {
            format!("forgot {forgotten} for lack of memory: more was allowed than should be\n")
        })
    }
}

/// Judges every request by counters in that store, and shows each decision to `see`.
pub(crate) fn replay<'t>(
    policy: Policy,
    traffic: &'t Traffic,
    url: &StoreUrl,
    mut see: impl FnMut(RecordView<'t>, &Decision) -> Result<(), Failure>,
) -> Result<Replayed, Failure> {
    let runtime = Runtime::new()?;
    // Stores across a network need a runtime.
    let _inside = runtime.enter();
    let settings = RemoteSettings {
        deadline: DEADLINE,
        uses_callers_clock: true,
        deny_cache: Micros::ZERO,
        ..RemoteSettings::default()
    };
    let store = AnyStore::open(url, STORE_BYTES, &settings).map_err(Failure::usage)?;
    if let AnyStore::Redis(store) = &store
        && !runtime.block_on(store.inner().found(DEADLINE))
    {
        return Err(Failure::usage(format!("cannot count in {url}: no server responds there")));
    }
    let store = NamespacedStore::new(store, SystemClock.now());
    let clock = ManualClock::default();
    let limiter = Limiter::builder().policy(policy).store(store).clock(clock.clone()).build();
    let bar = progress(Some(traffic.len() as u64), "replaying", "requests");
    for (i, record) in traffic.iter().enumerate() {
        clock.set(record.time());
        let request = Recorded(record);
        let decision = match limiter.check(&request) {
            Checked::Ready(decision) => decision,
            Checked::Pending(pending) => runtime.block_on(pending.into_future()),
        };
        if let Some(why) = decision.degraded() {
            return Err(Failure::usage(format!("cannot count in {url}: {why}")));
        }
        see(record, &decision)?;
        if i % STRIDE == 0 {
            bar.set_position(i as u64);
        }
    }
    bar.finish_and_clear();
    let forgotten = limiter.store().store.memory().map_or(0, MemoryStore::evicted);
    Ok(Replayed { forgotten })
}
