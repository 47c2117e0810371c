//! Requests in memory: what a line says, and the 64 bytes that are kept of it.

use std::borrow::Cow;

use tollgate_core::Timestamp;

use super::strings::{Strings, Symbol};

/// Names and their values, in the order in which they were written.
pub(super) type Pairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// One request as its line tells it.
#[derive(Debug)]
pub(super) struct LogEntry<'a> {
    pub(super) time: Timestamp,
    pub(super) cost: u64,
    pub(super) key: Option<Cow<'a, str>>,
    pub(super) user: Option<Cow<'a, str>>,
    pub(super) api_key: Option<Cow<'a, str>>,
    pub(super) ip: Option<Cow<'a, str>>,
    pub(super) tenant: Option<Cow<'a, str>>,
    pub(super) tier: Option<Cow<'a, str>>,
    pub(super) host: Option<Cow<'a, str>>,
    pub(super) method: Option<Cow<'a, str>>,
    pub(super) path: Option<Cow<'a, str>>,
    pub(super) status: Option<u16>,
    /// Names in lower case, with hyphens.
    pub(super) headers: Pairs<'a>,
    pub(super) attributes: Pairs<'a>,
}

impl LogEntry<'_> {
    /// A request of cost 1 at this time, about which nothing else is known.
    pub(super) fn at(time: Timestamp) -> Self {
        Self {
            time,
            cost: 1,
            key: None,
            user: None,
            api_key: None,
            ip: None,
            tenant: None,
            tier: None,
            host: None,
            method: None,
            path: None,
            status: None,
            headers: Pairs::new(),
            attributes: Pairs::new(),
        }
    }

    pub(super) fn without_headers(mut self) -> Self {
        self.headers.clear();
        self
    }
}

#[derive(Clone, Copy, Debug)]
struct TrafficRecord {
    time: Timestamp,
    cost: u64,
    key: Option<Symbol>,
    user: Option<Symbol>,
    api_key: Option<Symbol>,
    ip: Option<Symbol>,
    tenant: Option<Symbol>,
    tier: Option<Symbol>,
    host: Option<Symbol>,
    method: Option<Symbol>,
    path: Option<Symbol>,
    /// The first of this record's pairs: its headers, then its attributes.
    first_pair: u32,
    headers: u16,
    attributes: u16,
    /// Zero when unknown.
    status: u16,
}

/// A name and its value.
type Pair = (Symbol, Symbol);

const _: () = assert!(size_of::<TrafficRecord>() == 64, "hours of traffic must fit into memory");

/// How many records are made room for at least.
const MIN_GROWTH: usize = 1_024;

/// Many requests, each distinct string among them held once.
#[derive(Debug, Default)]
pub(super) struct TrafficRecords {
    records: Vec<TrafficRecord>,
    pairs: Vec<Pair>,
    strings: Strings,
}

impl TrafficRecords {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// How much memory the requests take, with what sorting them needs.
    pub(super) fn bytes(&self, sorted: bool) -> usize {
        let rows = self.records.len() * size_of::<TrafficRecord>();
        // A stable sort keeps half of the rows in a buffer.
        let buffer = if sorted { rows / 2 } else { 0 };
        rows + buffer + self.pairs.len() * size_of::<Pair>() + self.strings.bytes_held()
    }

    /// How many headers and attributes are held.
    pub(super) fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// Adds a request; `None` if there is no room for its strings.
    pub(super) fn push(&mut self, entry: &LogEntry<'_>) -> Option<()> {
        let first_pair = u32::try_from(self.pairs.len()).ok()?;
        let record = TrafficRecord {
            time: entry.time,
            cost: entry.cost,
            key: self.intern(entry.key.as_deref())?,
            user: self.intern(entry.user.as_deref())?,
            api_key: self.intern(entry.api_key.as_deref())?,
            ip: self.intern(entry.ip.as_deref())?,
            tenant: self.intern(entry.tenant.as_deref())?,
            tier: self.intern(entry.tier.as_deref())?,
            host: self.intern(entry.host.as_deref())?,
            method: self.intern(entry.method.as_deref())?,
            path: self.intern(entry.path.as_deref())?,
            first_pair,
            headers: u16::try_from(entry.headers.len()).ok()?,
            attributes: u16::try_from(entry.attributes.len()).ok()?,
            status: entry.status.unwrap_or(0),
        };
        for (name, value) in entry.headers.iter().chain(&entry.attributes) {
            let pair = (self.strings.intern(name)?, self.strings.intern(value)?);
            self.pairs.push(pair);
        }
        if self.records.len() == self.records.capacity() {
            // Doubling would take up to twice of what is needed.
            self.records.reserve_exact((self.records.len() / 8).max(MIN_GROWTH));
        }
        self.records.push(record);
        Some(())
    }

    /// The outer `None` means that there is no room.
    fn intern(&mut self, text: Option<&str>) -> Option<Option<Symbol>> {
        match text {
            None => Some(None),
            Some(text) => self.strings.intern(text).map(Some),
        }
    }

    /// Puts the requests into the order of their times; those of one time stay as they were.
    pub(super) fn sort(&mut self) {
        self.records.sort_by_key(|record| record.time);
    }

    pub(super) fn get(&self, index: usize) -> Option<RecordView<'_>> {
        self.records.get(index).map(|record| RecordView { records: self, record })
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = RecordView<'_>> {
        self.records.iter().map(|record| RecordView { records: self, record })
    }
}

/// One recorded request.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    records: &'a TrafficRecords,
    record: &'a TrafficRecord,
}

impl<'a> RecordView<'a> {
    /// When it came.
    #[must_use]
    pub fn time(self) -> Timestamp {
        self.record.time
    }

    /// What it costs: 1 in a log.
    #[must_use]
    pub fn cost(self) -> u64 {
        self.record.cost
    }

    /// The key of a trace, which stands for whatever the rule counts by.
    #[must_use]
    pub fn key(self) -> Option<&'a str> {
        self.text(self.record.key)
    }

    /// The user it was made by.
    #[must_use]
    pub fn user(self) -> Option<&'a str> {
        self.text(self.record.user)
    }

    /// The API key it was made with.
    #[must_use]
    pub fn api_key(self) -> Option<&'a str> {
        self.text(self.record.api_key)
    }

    /// The address it came from; a name where the server looked names up.
    #[must_use]
    pub fn ip(self) -> Option<&'a str> {
        self.text(self.record.ip)
    }

    /// The tenant it belongs to.
    #[must_use]
    pub fn tenant(self) -> Option<&'a str> {
        self.text(self.record.tenant)
    }

    /// The tier of its client, if the trace says so.
    #[must_use]
    pub fn tier(self) -> Option<&'a str> {
        self.text(self.record.tier)
    }

    /// The host it was sent to.
    #[must_use]
    pub fn host(self) -> Option<&'a str> {
        self.text(self.record.host)
    }

    /// Its method; none when what came was no HTTP.
    #[must_use]
    pub fn method(self) -> Option<&'a str> {
        self.text(self.record.method)
    }

    /// Its path, in a log without the query; none when what came was no HTTP.
    #[must_use]
    pub fn path(self) -> Option<&'a str> {
        self.text(self.record.path)
    }

    /// The status of the response.
    #[must_use]
    pub fn status(self) -> Option<u16> {
        Some(self.record.status).filter(|status| *status != 0)
    }

    /// The value of a header, whatever the case of its name.
    #[must_use]
    pub fn header(self, name: &str) -> Option<&'a str> {
        let (headers, _) = self.pairs();
        self.find(headers, |header| header.eq_ignore_ascii_case(name))
    }

    /// The value of an attribute of a trace.
    #[must_use]
    pub fn attribute(self, name: &str) -> Option<&'a str> {
        let (_, attributes) = self.pairs();
        self.find(attributes, |attribute| attribute == name)
    }

    fn text(self, symbol: Option<Symbol>) -> Option<&'a str> {
        symbol.map(|symbol| self.records.strings.get(symbol))
    }

    /// Headers and attributes.
    fn pairs(self) -> (&'a [Pair], &'a [Pair]) {
        let TrafficRecord { first_pair, headers, attributes, .. } = *self.record;
        let from_here = self.records.pairs.get(first_pair as usize..).unwrap_or_default();
        let (headers, rest) = from_here.split_at_checked(headers.into()).unwrap_or_default();
        (headers, rest.get(..attributes.into()).unwrap_or_default())
    }

    fn find(self, pairs: &[Pair], is_it: impl Fn(&str) -> bool) -> Option<&'a str> {
        let strings = &self.records.strings;
        pairs
            .iter()
            .find(|(name, _)| is_it(strings.get(*name)))
            .map(|(_, value)| strings.get(*value))
    }
}
