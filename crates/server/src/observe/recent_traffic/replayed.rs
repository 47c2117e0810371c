//! Kept requests as the limiter sees requests, so that they can be checked again.

use std::collections::hash_map::Entry;
use std::hash::BuildHasher as _;
use std::ops::ControlFlow;

use foldhash::quality::RandomState;
use tollgate::rules::Identifier;
use tollgate::{Attribute, Attributes, Timestamp};

use super::client_name::ClientKey;
use super::hidden::digest_text;
use super::record::{RecordFields, tag};
use super::ring::{BlockReader, TrafficView};
use super::sketch::ByHash;

/// The bytes of a whole digest.
const WHOLE_DIGEST: usize = 32;

/// The client of kept requests.
#[derive(Debug, Default)]
pub(crate) struct ReplayedClient {
    /// Tells it from other clients.
    pub(crate) number: usize,
    fields: Vec<ReplayedField>,
    has_hidden_key: bool,
}

/// A field, with the digest in place of a secret.
#[derive(Debug)]
struct ReplayedField {
    kind: u8,
    name: String,
    value: String,
    is_hidden: bool,
}

/// What kept requests ask for.
#[derive(Debug, Default)]
struct ReplayedPlace {
    fields: Vec<ReplayedField>,
}

/// A kept request, which can be checked again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayedRequest<'a> {
    pub(crate) at: Timestamp,
    pub(crate) client: &'a ReplayedClient,
    place: &'a ReplayedPlace,
    cost: u64,
}

/// The names of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedClient {
    pub(crate) client: String,
    pub(crate) tenant: Option<String>,
}

impl ReplayedClient {
    fn new(number: usize, run: &[u8]) -> Self {
        let has_hidden_key =
            RecordFields(run).any(|field| field.kind() == tag::API_KEY && field.is_hidden());
        Self { number, fields: fields(run), has_hidden_key }
    }
}

/// Shows one request that was kept apart from the others.
pub(super) fn replay_one<R>(
    at: Timestamp,
    client: &[u8],
    place: &[u8],
    visit: impl FnOnce(&ReplayedRequest<'_>) -> R,
) -> R {
    let client = ReplayedClient::new(0, client);
    let place = ReplayedPlace { fields: fields(place) };
    visit(&ReplayedRequest { at, client: &client, place: &place, cost: 1 })
}

impl ReplayedRequest<'_> {
    /// The digest in place of the value of an identifier, if that is hidden.
    pub(super) fn hidden(&self, identifier: &Identifier) -> Option<&str> {
        let (kind, name) = match identifier {
            Identifier::ApiKey => (tag::API_KEY, ""),
            Identifier::Header(name) => (tag::HEADER, &**name),
            Identifier::Claim(name) => (tag::CLAIM, &**name),
            Identifier::Attribute(name) => (tag::CUSTOM, &**name),
            _ => return None,
        };
        let fields = self.client.fields.iter();
        let mut found = fields.filter(|it| it.is_hidden && it.kind == kind && it.name == name);
        found.next().map(|field| field.value.as_str())
    }

    /// The rule of a check by rule.
    pub(crate) fn asked_rule(&self) -> Option<&str> {
        find(&self.place.fields, tag::ASKED_RULE, "")
    }
}

impl Attributes for ReplayedRequest<'_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        let (client, place) = (&self.client.fields, &self.place.fields);
        match attribute {
            Attribute::UserId => find(client, tag::USER, ""),
            Attribute::ApiKey => find(client, tag::API_KEY, ""),
            Attribute::Ip => find(client, tag::IP, ""),
            Attribute::Tenant => find(client, tag::TENANT, ""),
            Attribute::Tier => find(client, tag::TIER, ""),
            Attribute::Method => find(place, tag::METHOD, ""),
            Attribute::Host => find(place, tag::HOST, ""),
            Attribute::Path => find(place, tag::PATH, ""),
            Attribute::Header(name) => find(client, tag::HEADER, name),
            Attribute::Claim(name) => find(client, tag::CLAIM, name),
            Attribute::Custom(name) => {
                find(client, tag::CUSTOM, name).or_else(|| find(client, tag::ENTRY, name))
            }
        }
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn api_key_digest(&self) -> Option<&str> {
        self.get(Attribute::ApiKey).filter(|_| self.client.has_hidden_key)
    }
}

fn find<'f>(fields: &'f [ReplayedField], kind: u8, name: &str) -> Option<&'f str> {
    let found = fields.iter().find(|field| field.kind == kind && field.name == name);
    found.map(|field| field.value.as_str())
}

fn fields(run: &[u8]) -> Vec<ReplayedField> {
    let field = |it: super::record::RecordField<'_>| ReplayedField {
        kind: it.kind(),
        name: it.name_text().to_owned(),
        value: match it.is_hidden() {
            true => digest_text(it.value, WHOLE_DIGEST),
            false => it.value_text().to_owned(),
        },
        is_hidden: it.is_hidden(),
    };
    RecordFields(run).map(field).collect()
}

/// What was replayed.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// The clients, by their numbers.
    pub(crate) clients: Vec<NamedClient>,
    /// One in so many clients was replayed.
    pub(crate) one_in: u64,
    /// Whether older requests were left out.
    pub(crate) is_cut: bool,
}

impl TrafficView {
    /// Visits the last requests in order, at most about `limit` of them, of one tenant if that is given, until `visit`
    /// says to stop.
    pub(crate) fn replay(
        &self,
        limit: u64,
        tenant: Option<&str>,
        mut visit: impl FnMut(&ReplayedRequest<'_>) -> ControlFlow<()>,
    ) -> Replayed {
        let sampling = self.sampling();
        let mut left = limit;
        let newest = self.blocks.iter().rev().take_while(|block| {
            let fits = block.requests <= left || left == limit;
            left = left.saturating_sub(block.requests);
            fits
        });
        let first = self.blocks.len() - newest.count();
        let mut replayed =
            Replayed { one_in: 1 << sampling, is_cut: first > 0, ..Replayed::default() };
        // The numbers of clients in all blocks.
        let mut numbers = ByHash::default();
        let hasher = RandomState::default();
        for block in self.blocks.iter().skip(first) {
            let mut reader = BlockReader::new(block);
            let (mut clients, mut places) = (Vec::new(), Vec::new());
            while let Some(kept) = reader.next() {
                for run in &reader.clients[clients.len()..] {
                    let key = ClientKey::new(run);
                    let is_wanted = self.has_all_of(run, sampling)
                        && (tenant.is_none() || key.tenant_text() == tenant);
                    clients.push(is_wanted.then(|| {
                        let next = numbers.len();
                        let number = match numbers.entry(hasher.hash_one((key.tenant, key.bytes())))
                        {
                            Entry::Occupied(known) => *known.get(),
                            Entry::Vacant(place) => {
                                let tenant = key.tenant_text().map(str::to_owned);
                                let client = key.name().into_owned();
                                replayed.clients.push(NamedClient { client, tenant });
                                *place.insert(next)
                            }
                        };
                        ReplayedClient::new(number, run)
                    }));
                }
                for run in &reader.places[places.len()..] {
                    places.push(ReplayedPlace { fields: fields(run) });
                }
                let (Some(Some(client)), Some(place)) =
                    (clients.get(kept.client), places.get(kept.place))
                else {
                    continue;
                };
                let request = ReplayedRequest { at: kept.at, client, place, cost: kept.cost };
                if visit(&request).is_break() {
                    replayed.is_cut = true;
                    return replayed;
                }
            }
        }
        replayed
    }
}
