//! The requests of the last minutes on this node: all of them ranked, and as many as fit kept to be replayed.
//!
//! A check writes a short record to the [tape] of its thread and goes on. A few times a second, or more often, a background
//! task takes the tape, counts every record for the [top] lists, may keep it as a sample for [hot] counters, and keeps it
//! in a [ring] of fixed size. Secrets are replaced by
//! their digests there; until then, they are on the tape as they are in the request.

mod client_name;
mod hidden;
pub(crate) mod hot;
mod record;
pub(crate) mod replayed;
mod ring;
mod sketch;
mod tape;
pub(crate) mod top;

use std::hash::BuildHasher as _;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tollgate::{Decision, Micros, Timestamp};

use self::client_name::ClientKey;
use self::hidden::Digests;
use self::hot::{BusiestCounter, HotSamples};
use self::record::TapeRecord;
use self::ring::TrafficRing;
pub(crate) use self::ring::TrafficView;
use self::tape::{TakenBuffers, Tape};
use self::top::{Top, TopAsk, TopFigures};
use crate::app::state::Shared;
use crate::observe::audit_log::RequestContext;
use crate::observe::metrics::RequestOutcome;
use crate::observe::refusers::Refusers;
use crate::settings::ByteSize;

/// How often the tape is taken; sooner if much is written to it, but not more often than the other.
const TAKE_INTERVAL: Duration = Duration::from_millis(200);
const MIN_TAKE_INTERVAL: Duration = Duration::from_millis(2);

/// The requests of the last minutes.
#[derive(Debug)]
pub(crate) struct RecentTraffic {
    tape: Tape,
    kept: Mutex<KeptTraffic>,
    busiest: BusiestCounter,
}

/// What is made of the tape.
#[derive(Debug, Default)]
struct KeptTraffic {
    taken: TakenBuffers,
    digests: Digests,
    /// Where the fields of a client without its secrets are put together.
    client: Vec<u8>,
    top: Top,
    hot: HotSamples,
    /// Refusals since they were last [taken](RecentTraffic::take_refusers).
    refusers: Refusers,
    /// Makes the hashes that distinguish clients of `refusers`.
    hasher: RandomState,
    /// `None` if requests are not kept.
    ring: Option<TrafficRing>,
}

/// How much recent traffic is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrafficSize {
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    /// From the first request to the last one.
    pub(crate) span: Micros,
    /// One in so many clients is kept.
    pub(crate) one_in: u64,
}

impl RecentTraffic {
    /// Keeps at most `size` of requests; none if that is 0.
    pub(crate) fn new(size: ByteSize) -> Self {
        let ring = Some(size.bytes()).filter(|bytes| *bytes > 0).map(TrafficRing::new);
        Self {
            tape: Tape::default(),
            kept: Mutex::new(KeptTraffic { ring, ..KeptTraffic::default() }),
            busiest: BusiestCounter::default(),
        }
    }

    /// Writes down a request, without waiting.
    #[inline]
    pub(crate) fn record(
        &self,
        decision: &Decision,
        outcome: RequestOutcome,
        context: &RequestContext<'_>,
    ) {
        self.tape.write(|out| record::write(out, decision, outcome, context));
    }

    /// How many requests were not written down, because no buffer had room.
    pub(crate) fn lost(&self) -> u64 {
        self.tape.lost()
    }

    /// The top lists of this node, with all requests until now.
    pub(crate) fn top(&self, ask: &TopAsk, now: Timestamp) -> TopFigures {
        let mut kept = self.kept.lock();
        kept.take(&self.tape);
        kept.top.figures(ask, now, self.tape.lost())
    }

    /// The refusals since the last call, until now.
    pub(crate) fn take_refusers(&self) -> Refusers {
        let mut kept = self.kept.lock();
        kept.take(&self.tape);
        mem::take(&mut kept.refusers)
    }

    /// The requests that are kept, until now; `None` if none are to be.
    pub(crate) fn view(&self) -> Option<TrafficView> {
        let mut kept = self.kept.lock();
        kept.take(&self.tape);
        kept.ring.as_ref().map(TrafficRing::read)
    }

    /// How much is kept.
    pub(crate) fn size(&self) -> TrafficSize {
        self.kept.lock().ring.as_ref().map_or_else(TrafficSize::default, TrafficRing::size)
    }
}

impl KeptTraffic {
    /// Takes what is on the tape, in the order of time.
    fn take(&mut self, tape: &Tape) {
        let Self { taken, digests, client, top, hot, refusers, hasher, ring } = self;
        tape.take(taken);
        let lost = tape.lost();
        let mut buffers: Vec<&[u8]> = taken.0.iter().map(Vec::as_slice).collect();
        let mut heads: Vec<Option<TapeRecord<'_>>> = buffers.iter_mut().map(next).collect();
        // Each buffer is nearly in order already, and few are used at a time.
        while let Some((place, record)) = first_of(&heads) {
            heads[place] = next(&mut buffers[place]);
            let mut fields = record.client;
            if record.has_secrets() {
                client.clear();
                digests.hide(record.client, client);
                fields = client;
            }
            let key = ClientKey::new(fields);
            top.count(&record, &key, lost);
            if record.is_refused() {
                let is_named = !key.bytes().is_empty();
                let client = is_named.then(|| hasher.hash_one((key.tenant, key.bytes())));
                refusers.count(record.rule_id(), client);
            }
            hot.add(&record, fields);
            if let Some(ring) = ring
                && record.is_replayable()
            {
                ring.push(&record, fields);
            }
        }
    }
}

/// Takes the next record of a buffer.
fn next<'b>(buffer: &mut &'b [u8]) -> Option<TapeRecord<'b>> {
    let (record, rest) = TapeRecord::read(buffer)?;
    *buffer = rest;
    Some(record)
}

/// The earliest record of those that come next, and its buffer.
fn first_of<'b>(heads: &[Option<TapeRecord<'b>>]) -> Option<(usize, TapeRecord<'b>)> {
    let heads = heads.iter().enumerate().filter_map(|(place, head)| Some((place, (*head)?)));
    heads.min_by_key(|(_, record)| record.at)
}

impl Shared {
    /// Takes the tape a few times a second, or in small pieces while much is written to it, until it is dropped.
    pub(crate) async fn keep_traffic(&self) {
        loop {
            sleep(MIN_TAKE_INTERVAL).await;
            tokio::select! {
                () = sleep(TAKE_INTERVAL) => {}
                () = self.recent_traffic.tape.filling() => {}
            }
            let traffic = Arc::clone(&self.recent_traffic);
            // On another thread than those of checks.
            let taking = spawn_blocking(move || traffic.kept.lock().take(&traffic.tape));
            // It fails only if the runtime ends.
            let _ = taking.await;
        }
    }
}

#[cfg(test)]
mod tests;
