//! Hot counters: those that a large share of the requests of this node charges. Each is a single record on one server of
//! the store, so that more servers do not help.
//!
//! Of each slice of time a random sample of the requests is kept, in fixed memory. Which counters they charge is worked
//! out by the policy in force when it is asked for, so that checks pay nothing for it: for 1,792 requests at most.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher as _;
use std::time::Duration;

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use tollgate::rules::document::Consistency;
use tollgate::rules::{Identifier, Plan, Rule};
use tollgate::{Policy, Stopwatch, Store as _, Timestamp};

use super::client_name::ClientKey;
use super::record::{RecordFields, TapeRecord, tag};
use super::replayed::{ReplayedRequest, replay_one};
use crate::app::state::Shared;

/// The length of a slice.
const SLICE_MICROS: u64 = 10_000_000;
/// How far back samples are looked at.
const WINDOW_MICROS: u64 = 60_000_000;
/// The slice that is being filled, and those of the window.
const SLICES: usize = 1 + (WINDOW_MICROS / SLICE_MICROS) as usize;
/// How many requests of a slice are kept: enough to tell a share within about a hundredth.
const SAMPLES: usize = 256;
/// Counters with a smaller share of the requests are not hot.
const MIN_SHARE: f64 = 0.2;
/// Of fewer requests within the window, one counter does no harm: 5 a second.
const MIN_REQUESTS: f64 = 300.0;
/// How long the load of the busiest counter is used again, however often metrics are read.
const CACHED_FOR: Duration = Duration::from_secs(1);
/// The longest beginning of a digest that is shown.
const SHOWN_OF_DIGEST: usize = "sha256:".len() + 12;

/// How many requests charge a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CounterLoad {
    pub(crate) per_second: f64,
    /// The share of the requests that charge it, from 0 to 1.
    pub(crate) share: f64,
}

/// The load of the busiest counter, as it was a moment ago.
#[derive(Debug, Default)]
pub(super) struct BusiestCounter(Mutex<Option<(Stopwatch, CounterLoad)>>);

/// A counter that a large share of the requests charges.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HotCounter {
    pub(crate) rule_id: String,
    /// What it is of, as it is shown: `alice`, `acme / alice`, `all requests`.
    pub(crate) name: String,
    /// The types and values of the client's identifiers; none if it is of no client, or a value is hidden.
    pub(crate) identifiers: Vec<(String, String)>,
    pub(crate) load: CounterLoad,
}

/// Samples of the requests of the last minute.
#[derive(Debug, Default)]
pub(super) struct HotSamples {
    slices: VecDeque<SampledSlice>,
    hasher: RandomState,
}

#[derive(Clone, Debug)]
struct SampledSlice {
    number: u64,
    requests: u64,
    samples: Vec<SampledRequest>,
}

/// A request without its secrets.
#[derive(Clone, Debug)]
struct SampledRequest {
    at: Timestamp,
    is_replayable: bool,
    client: Box<[u8]>,
    place: Box<[u8]>,
}

impl HotSamples {
    /// Counts a request, and keeps it or not. `client` has no secrets.
    pub(super) fn add(&mut self, record: &TapeRecord<'_>, client: &[u8]) {
        let number = record.at.as_micros() / SLICE_MICROS;
        if self.slices.back().is_none_or(|last| last.number < number) {
            if self.slices.len() == SLICES {
                self.slices.pop_front();
            }
            self.slices.push_back(SampledSlice { number, requests: 0, samples: Vec::new() });
        }
        // A clock that was set back fills the last slice.
        let Some(slice) = self.slices.back_mut() else { return };
        slice.requests += 1;
        let sample = || SampledRequest {
            at: record.at,
            is_replayable: record.is_replayable(),
            client: client.into(),
            place: record.place.into(),
        };
        if slice.samples.len() < SAMPLES {
            slice.samples.push(sample());
            return;
        }
        // Each request of the slice stays with the same chance.
        let place = self.hasher.hash_one((number, slice.requests)) % slice.requests;
        let kept = usize::try_from(place).ok().and_then(|place| slice.samples.get_mut(place));
        if let Some(kept) = kept {
            *kept = sample();
        }
    }

    /// The samples of the last minute.
    fn of_window(&self, now: Timestamp) -> Vec<SampledSlice> {
        let first = now.as_micros().saturating_sub(WINDOW_MICROS) / SLICE_MICROS;
        self.slices.iter().filter(|slice| slice.number >= first).cloned().collect()
    }
}

/// What is known of a counter.
#[derive(Debug, Default)]
struct CounterSum {
    rule_id: String,
    name: String,
    identifiers: Vec<(String, String)>,
    requests: f64,
}

/// The sums of counters, by their fingerprints.
#[derive(Debug, Default)]
struct CounterSums {
    sums: HashMap<u64, CounterSum>,
    hasher: RandomState,
}

impl CounterSums {
    /// Adds a request that stands for `weight` of them. Counters that are not in the shared store are left out if
    /// `is_shared`.
    fn add(&mut self, policy: &Policy, is_shared: bool, sample: &SampledRequest, weight: f64) {
        if !sample.is_replayable {
            self.add_of_envoy(sample, weight);
            return;
        }
        replay_one(sample.at, &sample.client, &sample.place, |request| {
            let plan = match request.asked_rule() {
                Some(rule_id) => policy.plan_rule(rule_id, request, sample.at, &self.hasher),
                None => Some(policy.plan(&[request], sample.at, &self.hasher)),
            };
            let Some(plan) = plan.filter(Plan::is_to_be_counted) else { return };
            for (line, planned) in plan.planned().iter().enumerate() {
                let Some(rule) = policy.rules().get(planned.rule) else { continue };
                let Some(charge) = plan.charge(line, policy.rules()) else { continue };
                // A candidate is counted beside its rule, by the same identifiers.
                if rule.is_candidate() || (is_shared && rule.consistency == Consistency::Local) {
                    continue;
                }
                let sum = self.sums.entry(charge.key.fingerprint).or_insert_with(|| {
                    let values = Plan::key_values(&charge.key);
                    let (name, identifiers) = named(rule, request, values);
                    let rule_id = rule.id.to_string();
                    CounterSum { rule_id, name, identifiers, requests: 0.0 }
                });
                sum.requests += weight;
            }
        });
    }

    /// Adds a request that limits of Envoy's files decided, which is counted by what the record has of it.
    fn add_of_envoy(&mut self, sample: &SampledRequest, weight: f64) {
        let rule = RecordFields(&sample.place).find(|field| field.kind() == tag::RULE);
        let Some(rule) = rule else { return };
        let client = ClientKey::new(&sample.client);
        let fingerprint = self.hasher.hash_one((rule.value, client.tenant, client.bytes()));
        let sum = self.sums.entry(fingerprint).or_insert_with(|| CounterSum {
            rule_id: rule.value_text().to_owned(),
            name: client.name().into_owned(),
            ..CounterSum::default()
        });
        sum.requests += weight;
    }
}

/// The name of a counter, and the identifiers of its client.
fn named<'k>(
    rule: &Rule,
    request: &ReplayedRequest<'_>,
    values: impl Iterator<Item = &'k [u8]>,
) -> (String, Vec<(String, String)>) {
    let (mut names, mut identifiers) = (Vec::new(), Vec::new());
    let mut is_client = true;
    for (identifier, value) in rule.identifiers.iter().zip(values) {
        let value = match request.hidden(identifier) {
            Some(digest) => digest.get(..SHOWN_OF_DIGEST).unwrap_or(digest).to_owned(),
            None => String::from_utf8_lossy(value).into_owned(),
        };
        is_client &= match identifier {
            Identifier::Endpoint | Identifier::Path | Identifier::Global => false,
            Identifier::ApiKey => true,
            _ => request.hidden(identifier).is_none(),
        };
        names.push(match identifier {
            Identifier::Global => "all requests".to_owned(),
            _ => value.clone(),
        });
        identifiers.push((identifier.to_string(), value));
    }
    (names.join(" / "), if is_client { identifiers } else { Vec::new() })
}

/// The counters that the sampled requests charge, each with its load.
fn loads(
    slices: &[SampledSlice],
    now: Timestamp,
    policy: &Policy,
    is_shared: bool,
) -> Vec<(CounterSum, CounterLoad)> {
    let Some(first) = slices.first() else { return Vec::new() };
    let mut sums = CounterSums::default();
    let mut requests = 0.0;
    for slice in slices {
        requests += slice.requests as f64;
        let weight = slice.requests as f64 / slice.samples.len().max(1) as f64;
        for sample in &slice.samples {
            sums.add(policy, is_shared, sample, weight);
        }
    }
    let begin = Timestamp::from_micros(first.number * SLICE_MICROS);
    let seconds = (now.since(begin).get() as f64 / 1e6).max(1.0);
    let load = |sum: CounterSum| {
        let (per_second, share) = (sum.requests / seconds, sum.requests / requests);
        (sum, CounterLoad { per_second, share })
    };
    sums.sums.into_values().map(load).collect()
}

/// The counters that a large share of the sampled requests charges, the hottest first.
fn hottest(
    slices: &[SampledSlice],
    now: Timestamp,
    policy: &Policy,
    is_shared: bool,
) -> Vec<HotCounter> {
    let is_hot = |(sum, load): &(CounterSum, CounterLoad)| {
        sum.requests >= MIN_REQUESTS && load.share >= MIN_SHARE
    };
    let hot = loads(slices, now, policy, is_shared).into_iter().filter(is_hot);
    let hot = hot.map(|(sum, load)| {
        let CounterSum { rule_id, name, identifiers, .. } = sum;
        HotCounter { rule_id, name, identifiers, load }
    });
    let mut hot: Vec<HotCounter> = hot.collect();
    hot.sort_unstable_by(|one, other| {
        let by_name = || (&one.rule_id, &one.name).cmp(&(&other.rule_id, &other.name));
        other.load.share.total_cmp(&one.load.share).then_with(by_name)
    });
    hot
}

/// The load of the counter that most of the sampled requests charge; zero without requests.
fn busiest(
    slices: &[SampledSlice],
    now: Timestamp,
    policy: &Policy,
    is_shared: bool,
) -> CounterLoad {
    let loads = loads(slices, now, policy, is_shared).into_iter().map(|(_, load)| load);
    loads.max_by(|one, other| one.share.total_cmp(&other.share)).unwrap_or_default()
}

impl BusiestCounter {
    /// The load as it was a moment ago, or as it is now.
    fn get(&self, now: impl FnOnce() -> CounterLoad) -> CounterLoad {
        // Callers that arrive meanwhile wait for the same figures.
        let mut cached = self.0.lock();
        if let Some((since, load)) = &*cached
            && since.elapsed() < CACHED_FOR
        {
            return *load;
        }
        let load = now();
        *cached = Some((Stopwatch::start(), load));
        load
    }
}

impl Shared {
    /// The hot counters of this node in the last minute, the hottest first. With a shared store, those that are in it.
    pub(crate) fn hot_counters(&self) -> Vec<HotCounter> {
        let (now, slices) = self.sampled();
        hottest(&slices, now, &self.limiter.policy(), self.limiter.store().is_shared())
    }

    /// The load of the busiest counter of this node in the last minute, at most a second old. With a shared store, of
    /// those that are in it.
    pub(crate) fn busiest_counter(&self) -> CounterLoad {
        self.recent_traffic.busiest.get(|| {
            let (now, slices) = self.sampled();
            busiest(&slices, now, &self.limiter.policy(), self.limiter.store().is_shared())
        })
    }

    fn sampled(&self) -> (Timestamp, Vec<SampledSlice>) {
        let now = self.now();
        let mut kept = self.recent_traffic.kept.lock();
        kept.take(&self.recent_traffic.tape);
        (now, kept.hot.of_window(now))
    }
}

#[cfg(test)]
mod tests;
