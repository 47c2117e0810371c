//! The top lists: clients, rules and endpoints with most requests of a kind, in fixed memory.
//!
//! Time is cut into slices, and each has a [sketch](super::sketch) for everything that is ranked. Of a slice that has
//! passed, the highest counts are kept: all slices together take up to 20 MB with names of usual length, and never more
//! than 100 MB, if clients choose the longest names.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;
use serde::{Deserialize, Serialize};
use tollgate::Timestamp;

use super::client_name::ClientKey;
use super::record::{RecordFields, TapeRecord, tag};
use super::sketch::{CountedName, Sketch};

/// The length of a slice.
const SLICE_MICROS: u64 = 10_000_000;
/// The longest window of a ranking, in seconds.
pub(crate) const MAX_WINDOW: u64 = 300;
/// The slice that is being filled, and those of the longest window.
const SLICES: usize = 1 + (MAX_WINDOW * 1_000_000 / SLICE_MICROS) as usize;

/// What is ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RankedBy {
    #[default]
    Client,
    Rule,
    Endpoint,
}

impl RankedBy {
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("client", Self::Client), ("rule", Self::Rule), ("endpoint", Self::Endpoint)];
}

/// Which requests are counted.
#[derive(Clone, Copy, Debug)]
enum RankedKind {
    Refused,
    NearLimit,
    Busiest,
    WouldRefuse,
}

const LISTS: usize = 4;

/// Which top lists are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct TopAsk {
    pub(crate) by: RankedBy,
    /// How many seconds back; up to [`MAX_WINDOW`].
    pub(crate) window_seconds: u64,
    /// How many entries of each list.
    pub(crate) limit: usize,
    /// Only requests of this tenant.
    pub(crate) tenant: Option<String>,
}

/// The top lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TopFigures {
    /// By requests that did not pass.
    pub(crate) refused: RankedList,
    /// By requests that passed above the warning share of a limit, or after a delay.
    pub(crate) near_limit: RankedList,
    /// By all requests.
    pub(crate) busiest: RankedList,
    /// By requests that passed, but that a shadow rule or candidate would have refused: each pair of a client or an endpoint
    /// and such a rule.
    pub(crate) would_refuse: RankedList,
}

/// Names with the highest counts, in descending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RankedList {
    pub(crate) entries: Vec<RankedEntry>,
    /// How much any count may be too low, at most. None is too high.
    pub(crate) may_lack: u64,
    /// The highest count of those that are not in `entries`.
    pub(crate) next: u64,
}

/// A client, rule or endpoint of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RankedEntry {
    /// The client as it is recorded, the rule, or the endpoint.
    pub(crate) name: String,
    /// The tenant of a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// The rule that decided the last of these requests, or would have refused all of them; of a rule, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule_id: Option<String>,
    /// How much of that rule's limit was used then, in percent: for clients near a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) used_percent: Option<u8>,
    pub(crate) count: u64,
}

/// Counts of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Top {
    slices: VecDeque<Slice>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Slice {
    number: u64,
    /// How many records had been lost before it began.
    lost_before: u64,
    /// For each of [`RankedBy`], one for each of [`RankedKind`].
    sketches: [[Sketch; LISTS]; RankedBy::ALL.len()],
}

impl Slice {
    /// Counts a request that a shadow rule would have refused: each pair of a name and a rule by itself, so that every rule
    /// finds its clients.
    fn count_shadow(
        &mut self,
        hasher: &RandomState,
        client: &ClientKey<'_>,
        shadow: &[u8],
        endpoint: Option<&[u8]>,
    ) {
        let names = [Some(client.bytes()), Some(shadow), endpoint];
        for (by, name) in names.into_iter().enumerate() {
            let Some(name) = name else { continue };
            let rule = Some(shadow).filter(|_| by != RankedBy::Rule as usize);
            let is_client = by == RankedBy::Client as usize;
            let hash = hasher.hash_one((client.tenant, name, rule));
            let sketch = &mut self.sketches[by][RankedKind::WouldRefuse as usize];
            sketch.count(hash, || CountedName {
                name: if is_client { client.name().into() } else { text(name) },
                tenant: client.tenant.map(text),
                rule: rule.map(text),
                ..CountedName::default()
            });
        }
    }
}

fn text(bytes: &[u8]) -> Box<str> {
    Box::from(str::from_utf8(bytes).unwrap_or_default())
}

impl Top {
    /// Counts a request. `lost` is how many records have been lost so far.
    pub(super) fn count(&mut self, record: &TapeRecord<'_>, client: &ClientKey<'_>, lost: u64) {
        let (mut endpoint, mut rule) = (None, None);
        for field in RecordFields(record.place) {
            match field.kind() {
                tag::PATH => endpoint = Some(field.value),
                tag::RULE => rule = Some(field.value),
                _ => {}
            }
        }
        let lists = [
            Some(RankedKind::Busiest),
            record.is_refused().then_some(RankedKind::Refused),
            record.is_near_limit().then_some(RankedKind::NearLimit),
        ];
        let hasher = self.hasher.clone();
        let slice = self.slice(record.at, lost);
        if !record.is_refused() && record.would_refuse() {
            let shadows = RecordFields(record.place).filter(|it| it.kind() == tag::SHADOW);
            shadows.for_each(|it| slice.count_shadow(&hasher, client, it.value, endpoint));
        }
        for list in lists.into_iter().flatten() {
            let names = [Some(client.bytes()), rule, endpoint];
            for (by, name) in names.into_iter().enumerate() {
                let Some(name) = name else { continue };
                let is_client = by == RankedBy::Client as usize;
                let hash = hasher.hash_one((client.tenant, name));
                let counted = slice.sketches[by][list as usize].count(hash, || CountedName {
                    name: if is_client { client.name().into() } else { text(name) },
                    tenant: client.tenant.map(text),
                    ..CountedName::default()
                });
                if by == RankedBy::Rule as usize || matches!(list, RankedKind::Busiest) {
                    continue;
                }
                let Some(counted) = counted else { continue };
                counted.used_percent = record.used_percent;
                if counted.rule.as_deref().map(str::as_bytes) != rule {
                    counted.rule = rule.map(text);
                }
            }
        }
    }

    /// The slice that is being filled. A clock that was set back fills the last one.
    fn slice(&mut self, now: Timestamp, lost_before: u64) -> &mut Slice {
        let number = now.as_micros() / SLICE_MICROS;
        if self.slices.back().is_none_or(|last| last.number < number) {
            if let Some(past) = self.slices.back_mut() {
                past.sketches.iter_mut().flatten().for_each(Sketch::compact);
            }
            if self.slices.len() == SLICES {
                self.slices.pop_front();
            }
            self.slices.push_back(Slice { number, lost_before, sketches: Default::default() });
        }
        let last = self.slices.len() - 1;
        &mut self.slices[last]
    }

    /// The top lists of the last seconds, in whole slices.
    pub(super) fn figures(&self, ask: &TopAsk, now: Timestamp, lost: u64) -> TopFigures {
        let list = |kind| self.ranking(ask, kind, now, lost);
        TopFigures {
            refused: list(RankedKind::Refused),
            near_limit: list(RankedKind::NearLimit),
            busiest: list(RankedKind::Busiest),
            would_refuse: list(RankedKind::WouldRefuse),
        }
    }

    fn ranking(&self, ask: &TopAsk, kind: RankedKind, now: Timestamp, lost: u64) -> RankedList {
        let window = ask.window_seconds.min(MAX_WINDOW) * 1_000_000;
        let first = now.as_micros().saturating_sub(window) / SLICE_MICROS;
        let slices = || self.slices.iter().filter(|slice| slice.number >= first);
        let begin = slices().next().map_or(lost, |oldest| oldest.lost_before);
        let mut merged = RankingSum::new(matches!(kind, RankedKind::WouldRefuse));
        merged.may_lack = lost.saturating_sub(begin);
        let is_wanted = |it: &CountedName| {
            ask.tenant.is_none() || it.tenant.as_deref() == ask.tenant.as_deref()
        };
        for slice in slices() {
            let sketch = &slice.sketches[ask.by as usize][kind as usize];
            merged.may_lack += sketch.may_lack();
            for (count, counted) in sketch.counts().filter(|(_, it)| is_wanted(it)) {
                // Rules and endpoints are those of all tenants.
                let tenant =
                    counted.tenant.as_deref().filter(|_| matches!(ask.by, RankedBy::Client));
                merged.add(RankedEntry {
                    name: counted.name.to_string(),
                    tenant: tenant.map(str::to_owned),
                    rule_id: counted.rule.as_deref().map(str::to_owned),
                    used_percent: matches!(kind, RankedKind::NearLimit)
                        .then_some(counted.used_percent)
                        .filter(|_| counted.rule.is_some()),
                    count,
                });
            }
        }
        merged.finish(ask.limit)
    }
}

/// Adds rankings up, of slices or of nodes.
#[derive(Debug, Default)]
pub(crate) struct RankingSum {
    sums: HashMap<(Option<String>, String, Option<String>), RankedEntry>,
    /// Whether each pair of a name and a rule is counted by itself; else what was added last tells the rule.
    is_by_pair: bool,
    pub(crate) may_lack: u64,
}

impl RankingSum {
    pub(crate) fn new(is_by_pair: bool) -> Self {
        Self { is_by_pair, ..Self::default() }
    }

    pub(crate) fn add(&mut self, entry: RankedEntry) {
        let rule = entry.rule_id.clone().filter(|_| self.is_by_pair);
        let key = (entry.tenant.clone(), entry.name.clone(), rule);
        let sum = self.sums.entry(key).or_default();
        let count = sum.count + entry.count;
        *sum = RankedEntry { count, ..entry };
    }

    /// The entries with the highest counts.
    pub(crate) fn finish(self, limit: usize) -> RankedList {
        let mut entries: Vec<RankedEntry> = self.sums.into_values().collect();
        entries.sort_unstable_by(|it, other| {
            let names = |it: &RankedEntry| (it.name.clone(), it.tenant.clone(), it.rule_id.clone());
            other.count.cmp(&it.count).then_with(|| names(it).cmp(&names(other)))
        });
        let next = entries.get(limit).map_or(0, |next| next.count);
        entries.truncate(limit);
        RankedList { entries, may_lack: self.may_lack, next }
    }
}

#[cfg(test)]
mod tests;
