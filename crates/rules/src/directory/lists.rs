//! Clients that are never limited or always refused: by identifier, or by network.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tollgate_core::Timestamp;
use tollgate_document::Problem;

use crate::compile::flaw::Flaw;
use crate::directory::by_kind::ByKind;
use crate::directory::client::{Client, IdentifierSet};
use crate::directory::expiry::{is_over, parse_expiry};
use crate::directory::table::Table;
use crate::document::ListDocument;
use crate::matching::network::Network;
use crate::plan::facts::{EVERYTHING, Facts};

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum List {
    /// Never limited, not even counted.
    Allow,
    /// Always refused.
    Deny,
}

/// Why a client is on a list, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The reason its author gave.
    pub reason: Option<Arc<str>>,
    /// From when on the entry no longer counts.
    pub expires_at: Option<Timestamp>,
}

/// Who is on a list: a client, or a whole network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listed(Who);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Who {
    Client(Client),
    Network(Network),
}

impl Listed {
    /// What documents write as these identifier types and their values.
    ///
    /// # Errors
    /// What is wrong, in `identifier_type` or `identifier`.
    pub fn new<T: AsRef<str>>(types: &[T], values: &[T]) -> Result<Self, Problem> {
        Self::parse(types, values).map_err(Problem::from)
    }

    /// The kinds of its identifiers and their values; see [`Client::names`].
    #[must_use]
    pub fn names(&self) -> Vec<(String, String)> {
        match &self.0 {
            Who::Client(client) => client.names(),
            Who::Network(network) => vec![("ip".to_owned(), network.to_string())],
        }
    }

    pub(crate) fn parse<T: AsRef<str>>(types: &[T], values: &[T]) -> Result<Self, Flaw> {
        if let ([kind], [text]) = (types, values)
            && kind.as_ref() == "ip"
        {
            let network =
                Network::parse(text.as_ref()).map_err(|flaw| flaw.within("identifier"))?;
            return Ok(Self(Who::Network(network)));
        }
        let client = Client::parse(types, values)?;
        if !client.is_named() {
            let message = "a list names clients, not what they ask for";
            let advice = "to block an endpoint, write a rule with a limit of 0";
            return Err(Flaw::new(message, advice).within("identifier_type"));
        }
        Ok(Self(Who::Client(client)))
    }
}

impl Listing {
    pub(crate) fn parse(document: &ListDocument) -> Result<Self, Flaw> {
        let expires_at = parse_expiry(document.expires_at.as_deref())?;
        Ok(Self { reason: document.reason.as_deref().map(Into::into), expires_at })
    }
}

/// The entry of a list that a request met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit<'a> {
    pub(crate) list: List,
    pub(crate) listing: &'a Listing,
    pub(crate) by: ListMatch<'a>,
}

/// What the entry was found by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListMatch<'a> {
    Kind(&'a IdentifierSet),
    Network(Network),
}

/// Both lists. Entries that have expired are as good as absent.
#[derive(Clone, Default)]
pub(crate) struct ClientLists {
    clients: ByKind<ListedTimes>,
    networks: Table<Network, ListedTimes>,
    prefixes: Prefixes,
}

/// A client can be on both lists, each for its own time.
#[derive(Clone, Default, PartialEq, Eq)]
struct ListedTimes {
    allow: Option<Listing>,
    deny: Option<Listing>,
}

impl ListedTimes {
    fn of(&mut self, list: List) -> &mut Option<Listing> {
        match list {
            List::Allow => &mut self.allow,
            List::Deny => &mut self.deny,
        }
    }

    /// The listing that counts now; on a tie, the one that denies.
    fn current(&self, now: Timestamp) -> Option<(List, &Listing)> {
        let counts = |listing: &&Listing| !is_over(listing.expires_at, now);
        let deny = self.deny.as_ref().filter(counts).map(|listing| (List::Deny, listing));
        deny.or_else(|| self.allow.as_ref().filter(counts).map(|listing| (List::Allow, listing)))
    }
}

impl ClientLists {
    /// Puts a client on a list, or with `None` takes it off.
    pub(crate) fn set(&mut self, listed: Listed, list: List, listing: Option<Listing>) {
        match listed.0 {
            Who::Client(client) => self.clients.change(client, |entry| *entry.of(list) = listing),
            Who::Network(network) => {
                let before = self.networks.len();
                self.networks.change(network, |entry| *entry.of(list) = listing);
                self.prefixes.count(network, before, self.networks.len());
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.networks.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.clients.len() + self.networks.len()
    }

    /// The entry that decides about a request. Across kinds of identifiers, deny wins.
    pub(crate) fn find(&self, facts: &Facts<'_>, now: Timestamp) -> Option<Hit<'_>> {
        let mut allowed = None;
        for hit in self.hits(facts, now) {
            if hit.list == List::Deny {
                return Some(hit);
            }
            allowed = allowed.or(Some(hit));
        }
        allowed
    }

    /// The entry of each kind of identifier.
    fn hits<'a>(&'a self, facts: &Facts<'_>, now: Timestamp) -> impl Iterator<Item = Hit<'a>> {
        let by_network = (self.networks.len() > 0)
            .then(|| facts.address())
            .flatten()
            .and_then(|address| self.narrowest_network(address, now));
        let by_client =
            self.clients.find(facts, EVERYTHING, |_| true).filter_map(move |(kind, entry)| {
                let (list, listing) = entry.current(now)?;
                Some(Hit { list, listing, by: ListMatch::Kind(kind) })
            });
        by_network.into_iter().chain(by_client)
    }

    /// Of the networks around an address, the smallest one with an entry that counts.
    fn narrowest_network(&self, address: IpAddr, now: Timestamp) -> Option<Hit<'_>> {
        self.prefixes.longest_first(address).find_map(|prefix| {
            let network = Network::around(address, prefix);
            let (list, listing) = self.networks.get(&network)?.current(now)?;
            Some(Hit { list, listing, by: ListMatch::Network(network) })
        })
    }
}

/// Which prefix lengths are in use, so that only those are looked up.
#[derive(Clone, Default)]
struct Prefixes {
    ipv4: BTreeMap<u8, usize>,
    ipv6: BTreeMap<u8, usize>,
}

impl Prefixes {
    /// Takes note of a network that came or went.
    fn count(&mut self, network: Network, before: usize, after: usize) {
        let lengths = if network.is_ipv4() { &mut self.ipv4 } else { &mut self.ipv6 };
        let count = lengths.entry(network.prefix()).or_default();
        *count = (*count + after).saturating_sub(before);
        if *count == 0 {
            lengths.remove(&network.prefix());
        }
    }

    fn longest_first(&self, address: IpAddr) -> impl Iterator<Item = u8> {
        let lengths = if address.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        lengths.keys().rev().copied()
    }
}
