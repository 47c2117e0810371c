//! Traffic through a limiter, one request after the other, at the time each was made.

use tollgate::{Attribute, Attributes, Decision, Limiter, ManualClock, MemoryStore, Policy};

use crate::terminal::{count, progress};
use crate::traffic::{RecordView, Traffic};

/// What an inline rule counts a trace by.
pub(super) const TRACE_KEY: &str = "attribute:key";
/// The attribute behind it.
const KEY: &str = "key";
/// Enough for tens of millions of clients; nobody should be forgotten in a simulation.
const STORE_BYTES: usize = 4 << 30;
/// How often the progress bar moves.
const STRIDE: usize = 1 << 14;

/// A recorded request as rules see it. The key of a trace stands for the user if there is none, and
/// whoever made a request stands for its key.
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

/// What is left when the traffic is over.
pub(super) struct Replayed {
    /// Counters that were forgotten because memory was full, which makes the result doubtful.
    forgotten: u64,
}

impl Replayed {
    /// A sentence about what makes the result doubtful, if anything does.
    pub(super) fn doubt(&self) -> Option<String> {
        let forgotten = count(self.forgotten, "counter");
        (self.forgotten > 0).then(|| {
            format!("forgot {forgotten} for lack of memory: more was allowed than should be\n")
        })
    }
}

/// Judges every request and shows each decision to `see`.
pub(super) fn replay<'t, E>(
    policy: Policy,
    traffic: &'t Traffic,
    mut see: impl FnMut(RecordView<'t>, &Decision) -> Result<(), E>,
) -> Result<Replayed, E> {
    let clock = ManualClock::default();
    let limiter = Limiter::builder()
        .policy(policy)
        .store(MemoryStore::with_bytes(STORE_BYTES))
        .clock(clock.clone())
        .build();
    let bar = progress(Some(traffic.len() as u64), "replaying", "requests");
    for (i, record) in traffic.iter().enumerate() {
        clock.set(record.time());
        see(record, &limiter.check_now(&Recorded(record)))?;
        if i % STRIDE == 0 {
            bar.set_position(i as u64);
        }
    }
    bar.finish_and_clear();
    Ok(Replayed { forgotten: limiter.store().evicted() })
}
