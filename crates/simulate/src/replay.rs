//! Traffic through a limiter with counters in memory, one request after the other, at the time each was made.

use tollgate::{
    Attribute, Attributes, Decision, Limiter, ManualClock, MemoryStore, PathCase, Policy, Unmatched,
};

use crate::traffic::{RecordView, Traffic};

/// What a rule without an identifier counts a trace by.
pub const TRACE_KEY: &str = "attribute:key";
/// The name of that attribute.
const KEY: &str = "key";
/// Enough for tens of millions of clients: a simulation should forget none.
const DEFAULT_STORE_BYTES: usize = 4 << 30;

/// A recorded request as rules see it. The key of a trace stands for a missing user, and the client of a request for
/// a missing key.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a>(pub RecordView<'a>);

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

/// How traffic is replayed, besides the policy.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// The most memory that counters may take.
    pub store_bytes: usize,
    /// Whether capital letters make another path.
    pub path_case: PathCase,
    /// What happens to requests that no rule applies to.
    pub unmatched: Unmatched,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            store_bytes: DEFAULT_STORE_BYTES,
            path_case: PathCase::default(),
            unmatched: Unmatched::default(),
        }
    }
}

/// A replay was stopped by the function that watches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Watches replays: called before each request, with the number of requests that this replay has had.
pub type Watch<'a> = dyn FnMut(usize) -> Result<(), Stopped> + 'a;

/// What makes the result of a replay doubtful: counters that were forgotten because memory was full. More was allowed
/// than should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// How many were forgotten.
    pub forgotten: u64,
}

impl Doubt {
    /// The doubt about a replay that forgot so many counters, if there is one.
    #[must_use]
    pub fn of(forgotten: u64) -> Option<Self> {
        (forgotten > 0).then_some(Self { forgotten })
    }
}

/// Checks every request with empty counters at the first one, and shows each decision to `see`, which may end it.
///
/// # Errors
/// Those of `see`.
pub fn replay<'t, E>(
    policy: Policy,
    traffic: &'t Traffic,
    options: &ReplayOptions,
    mut see: impl FnMut(RecordView<'t>, &Decision) -> Result<(), E>,
) -> Result<Option<Doubt>, E> {
    let clock = ManualClock::default();
    let limiter = Limiter::builder()
        .policy(policy)
        .store(MemoryStore::with_bytes(options.store_bytes))
        .clock(clock.clone())
        .path_case(options.path_case)
        .unmatched(options.unmatched)
        .build();
    for record in traffic.iter() {
        clock.set(record.time());
        let decision = limiter.check(&Recorded(record)).now();
        see(record, &decision)?;
    }
    Ok(Doubt::of(limiter.store().evicted()))
}
