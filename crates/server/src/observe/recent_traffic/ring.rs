//! The ring of recent requests: blocks of records, the oldest of which make room for new ones.
//!
//! A record is a few numbers, and refers to the first one in its block with the same client and the same place, so
//! that clients which come back take about ten bytes a request. Blocks that are full do not change any more: a preview
//! reads them while others are written.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::quality::RandomState;
use tollgate::Timestamp;

use super::TrafficSize;
use super::client_name::ClientKey;
use super::record::TapeRecord;
use super::sketch::ByHash;

/// How many blocks a ring has.
const BLOCKS: u64 = 64;
/// The smallest block.
const MIN_BLOCK_BYTES: u64 = 32 << 10;
/// A ring that would hold less than this at the current rate keeps fewer clients: ten minutes.
const MIN_SPAN_MICROS: u64 = 600_000_000;
/// A ring that would hold more than this at the current rate keeps more clients again.
const MAX_SPAN_MICROS: u64 = 4 * MIN_SPAN_MICROS;
/// One in 2^16 clients is kept at least.
const MAX_SAMPLING: u32 = 16;

/// Recent requests, in fixed memory.
#[derive(Debug)]
pub(super) struct TrafficRing {
    max_bytes: u64,
    block_bytes: u64,
    full: VecDeque<Arc<TrafficBlock>>,
    full_bytes: u64,
    open: OpenBlock,
    /// Tells clients, for the sample.
    hasher: RandomState,
}

/// Records of successive requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrafficBlock {
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) requests: u64,
    /// Of the clients, one in 2 to the power of this was kept.
    pub(super) sampling: u32,
    pub(super) bytes: Vec<u8>,
}

/// The block that is being written.
#[derive(Debug, Default)]
struct OpenBlock {
    block: TrafficBlock,
    /// When it was begun, with the first request that is kept or not.
    begun: Option<Timestamp>,
    clients: ByHash<u32>,
    places: ByHash<u32>,
}

impl TrafficRing {
    /// A ring that takes at most `max_bytes`, besides the tables of the block that is written.
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            block_bytes: (max_bytes / BLOCKS).max(MIN_BLOCK_BYTES).min(max_bytes),
            full: VecDeque::new(),
            full_bytes: 0,
            open: OpenBlock::default(),
            hasher: RandomState::default(),
        }
    }

    /// Keeps a request, if its client is in the sample. `client` has no secrets.
    pub(super) fn push(&mut self, record: &TapeRecord<'_>, client: &[u8]) {
        let begun = *self.open.begun.get_or_insert(record.at);
        let age = record.at.since(begun).get();
        // A sample of few requests would take long to fill a block.
        if self.open.block.sampling > 0 && age > MAX_SPAN_MICROS / BLOCKS && self.is_sparse(age) {
            self.close_block(record.at);
        }
        if !is_sampled(&self.hasher, client, self.open.block.sampling) {
            return;
        }
        let needed = record_bytes(client, record.place);
        if needed > self.block_bytes {
            return;
        }
        if self.open.block.bytes.len() as u64 + needed > self.block_bytes {
            self.close_block(record.at);
        }
        let hash = |bytes: &[u8]| self.hasher.hash_one(bytes);
        let (client_hash, place_hash) = (hash(client), hash(record.place));
        let OpenBlock { block, clients, places, .. } = &mut self.open;
        if block.requests == 0 {
            (block.first, block.last) = (record.at, record.at);
        }
        // A clock that was set back stands still.
        let at = record.at.max(block.last);
        let out = &mut block.bytes;
        number(out, at.since(block.last).get());
        number(out, record.cost);
        reference(out, clients, client_hash, client);
        reference(out, places, place_hash, record.place);
        block.last = at;
        block.requests += 1;
    }

    /// Closes the block that is being written, and begins the next one.
    fn close_block(&mut self, now: Timestamp) {
        let sampling = self.next_sampling(now.since(self.open.begun.unwrap_or(now)).get());
        let OpenBlock { block, .. } = std::mem::take(&mut self.open);
        (self.open.block.sampling, self.open.begun) = (sampling, Some(now));
        if block.requests == 0 {
            return;
        }
        self.full_bytes += block.bytes.len() as u64;
        self.full.push_back(Arc::new(block));
        while self.full_bytes + self.block_bytes > self.max_bytes
            && let Some(oldest) = self.full.pop_front()
        {
            self.full_bytes -= oldest.bytes.len() as u64;
        }
    }

    /// How long the ring would take to fill at the rate of the block that is being written, which is so old.
    fn span(&self, age: u64) -> u64 {
        let bytes = (self.open.block.bytes.len() as u64).max(1);
        u64::try_from(u128::from(age.max(1)) * u128::from(self.max_bytes) / u128::from(bytes))
            .unwrap_or(u64::MAX)
    }

    fn is_sparse(&self, age: u64) -> bool {
        self.span(age) > MAX_SPAN_MICROS
    }

    /// How many clients the next block keeps, so that the ring would hold ten minutes, and not much more.
    fn next_sampling(&self, age: u64) -> u32 {
        let sampling = self.open.block.sampling;
        if self.span(age) < MIN_SPAN_MICROS {
            (sampling + 1).min(MAX_SAMPLING)
        } else if self.is_sparse(age) {
            sampling.saturating_sub(1)
        } else {
            sampling
        }
    }

    /// How much is kept.
    pub(super) fn size(&self) -> TrafficSize {
        let open = &self.open.block;
        let blocks = || self.full.iter().map(|block| &**block).chain([open]);
        let mut filled = blocks().filter(|block| block.requests > 0);
        let first = filled.next().map_or(open.last, |block| block.first);
        let last = filled.next_back().map_or(open.last, |block| block.last);
        TrafficSize {
            bytes: self.full_bytes + open.bytes.len() as u64,
            requests: blocks().map(|block| block.requests).sum(),
            span: last.since(first),
            one_in: 1 << blocks().map(|block| block.sampling).max().unwrap_or(0),
        }
    }

    /// The blocks, the oldest first, as they are now.
    pub(super) fn read(&self) -> TrafficView {
        let open = Some(&self.open.block).filter(|block| block.requests > 0);
        let open = open.map(|block| Arc::new(block.clone()));
        let blocks = self.full.iter().cloned().chain(open).collect();
        TrafficView { blocks, hasher: self.hasher.clone() }
    }
}

/// The requests that a ring held at one moment.
#[derive(Clone, Debug)]
pub(crate) struct TrafficView {
    pub(super) blocks: Vec<Arc<TrafficBlock>>,
    hasher: RandomState,
}

impl TrafficView {
    /// Of the clients, one in 2 to the power of this is in all blocks.
    pub(super) fn sampling(&self) -> u32 {
        self.blocks.iter().map(|block| block.sampling).max().unwrap_or(0)
    }

    /// Whether a client is in all blocks.
    pub(super) fn has_all_of(&self, client: &[u8], sampling: u32) -> bool {
        is_sampled(&self.hasher, client, sampling)
    }
}

/// Whether a client is in the sample: by what names it, so that it is there with all of its requests.
#[inline]
fn is_sampled(hasher: &RandomState, client: &[u8], sampling: u32) -> bool {
    if sampling == 0 {
        return true;
    }
    let key = ClientKey::new(client);
    hasher.hash_one((key.tenant, key.bytes())) >> (u64::BITS - sampling) == 0
}

/// The most bytes of a record.
fn record_bytes(client: &[u8], place: &[u8]) -> u64 {
    const NUMBER: u64 = 10;
    6 * NUMBER + client.len() as u64 + place.len() as u64
}

/// Writes a number in as many bytes as it needs, seven bits each.
#[inline]
fn number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes the place of a run among those of the block; 0 and the run itself if it is new.
#[inline]
fn reference(out: &mut Vec<u8>, known: &mut ByHash<u32>, hash: u64, run: &[u8]) {
    let next = known.len() as u32 + 1;
    match known.get(&hash) {
        Some(place) => number(out, u64::from(*place)),
        None => {
            known.insert(hash, next);
            out.push(0);
            number(out, run.len() as u64);
            out.extend_from_slice(run);
        }
    }
}

/// A request of a block: the places of its client and of what it asked for among those of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptRequest {
    pub(crate) at: Timestamp,
    pub(crate) cost: u64,
    pub(crate) client: usize,
    pub(crate) place: usize,
}

/// Reads the requests of a block, in order.
#[derive(Debug)]
pub(crate) struct BlockReader<'b> {
    rest: &'b [u8],
    at: Timestamp,
    /// The runs that were read so far.
    pub(crate) clients: Vec<&'b [u8]>,
    pub(crate) places: Vec<&'b [u8]>,
}

impl<'b> BlockReader<'b> {
    pub(crate) fn new(block: &'b TrafficBlock) -> Self {
        Self { rest: &block.bytes, at: block.first, clients: Vec::new(), places: Vec::new() }
    }
}

impl Iterator for BlockReader<'_> {
    type Item = KeptRequest;

    fn next(&mut self) -> Option<KeptRequest> {
        let Self { rest, at, clients, places } = self;
        *at = Timestamp::from_micros(at.as_micros() + take_number(rest)?);
        let cost = take_number(rest)?;
        let client = take_reference(rest, clients)?;
        let place = take_reference(rest, places)?;
        Some(KeptRequest { at: *at, cost, client, place })
    }
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

fn take_reference<'b>(rest: &mut &'b [u8], known: &mut Vec<&'b [u8]>) -> Option<usize> {
    let place = usize::try_from(take_number(rest)?).ok()?;
    if place > 0 {
        return Some(place - 1);
    }
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (run, after) = rest.split_at_checked(length)?;
    *rest = after;
    known.push(run);
    Some(known.len() - 1)
}

#[cfg(test)]
mod tests;
