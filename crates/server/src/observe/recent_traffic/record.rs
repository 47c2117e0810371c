//! A request as a check writes it down: a head of fixed size, who sent it, and what was asked for.
//!
//! Who and what are two runs of fields, each a tag, a length and a text. The same client sends the same run again and
//! again, so that the ring keeps it once.

use tollgate::rules::Identifier;
use tollgate::{Attribute, Decision, SoftState, Timestamp};

use crate::observe::audit_log::{RequestContext, shortened, would_refuse_by};
use crate::observe::metrics::RequestOutcome;

/// The longest record: 16 named attributes and 16 entries of a descriptor, each of 2 x 256 bytes, and 18 other fields.
pub(super) const MAX_RECORD_BYTES: usize = 22 << 10;
/// How many headers, claims and custom attributes are kept, and how many entries of a descriptor.
const MAX_NAMED: usize = 16;
const HEAD_BYTES: usize = 24;

/// The tags of fields. Those from `HEADER` on have a name before their value.
pub(super) mod tag {
    pub(crate) const USER: u8 = 1;
    pub(crate) const API_KEY: u8 = 2;
    pub(crate) const IP: u8 = 3;
    pub(crate) const TENANT: u8 = 4;
    pub(crate) const TIER: u8 = 5;
    pub(crate) const METHOD: u8 = 6;
    pub(crate) const HOST: u8 = 7;
    pub(crate) const PATH: u8 = 8;
    /// The rule of a check by rule.
    pub(crate) const ASKED_RULE: u8 = 9;
    /// The rule that decided.
    pub(crate) const RULE: u8 = 10;
    /// A shadow rule or candidate that would have refused. There may be several such fields.
    pub(crate) const SHADOW: u8 = 11;
    pub(crate) const HEADER: u8 = 16;
    pub(crate) const CLAIM: u8 = 17;
    pub(crate) const CUSTOM: u8 = 18;
    /// An entry of a descriptor of Envoy.
    pub(crate) const ENTRY: u8 = 19;
    /// The tag without its marks.
    pub(crate) const KIND: u8 = 0x1f;
    /// A rule counts by it, so it names the client.
    pub(crate) const COUNTED: u8 = 0x20;
    /// It is a secret, whose digest is kept instead.
    pub(crate) const SECRET: u8 = 0x40;
    /// The value is the digest of a secret, in bytes.
    pub(crate) const HIDDEN: u8 = 0x80;
}

/// Marks of a record.
mod mark {
    pub(super) const WOULD_REFUSE: u8 = 1;
    pub(super) const NEAR_LIMIT: u8 = 2;
    pub(super) const REPLAYABLE: u8 = 4;
    pub(super) const HAS_SECRETS: u8 = 8;
}

/// A record on the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TapeRecord<'a> {
    pub(super) at: Timestamp,
    pub(super) outcome: u8,
    marks: u8,
    /// How much of the binding limit was used, in percent, if it is near.
    pub(super) used_percent: u8,
    pub(super) cost: u64,
    /// Who sent it.
    pub(super) client: &'a [u8],
    /// What was asked for, and which rule decided.
    pub(super) place: &'a [u8],
}

impl<'a> TapeRecord<'a> {
    /// The first record of a buffer, and the rest.
    pub(super) fn read(buffer: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = buffer.split_first_chunk::<HEAD_BYTES>()?;
        let [outcome, marks, used_percent, _, ..] = *head;
        let (fields, _) = head.get(4..)?.as_chunks::<2>();
        let length = |at: usize| fields.get(at).map(|it| usize::from(u16::from_le_bytes(*it)));
        let (client, rest) = rest.split_at_checked(length(0)?)?;
        let (place, rest) = rest.split_at_checked(length(1)?)?;
        let at = Timestamp::from_micros(u64::from_le_bytes(*head.get(8..)?.first_chunk()?));
        let cost = u64::from_le_bytes(*head.get(16..)?.first_chunk()?);
        Some((Self { at, outcome, marks, used_percent, cost, client, place }, rest))
    }

    pub(super) const fn would_refuse(&self) -> bool {
        self.marks & mark::WOULD_REFUSE != 0
    }

    pub(super) const fn is_near_limit(&self) -> bool {
        self.marks & mark::NEAR_LIMIT != 0
    }

    /// Whether the policy decided it, so that another policy can be tried on it.
    pub(super) const fn is_replayable(&self) -> bool {
        self.marks & mark::REPLAYABLE != 0
    }

    /// Whether `client` may have fields that have to be hidden.
    pub(super) const fn has_secrets(&self) -> bool {
        self.marks & mark::HAS_SECRETS != 0
    }

    /// The rule that decided the request.
    pub(super) fn rule_id(&self) -> Option<&str> {
        let mut fields = RecordFields(self.place);
        let rule = fields.find(|field| field.kind() == tag::RULE)?;
        str::from_utf8(rule.value).ok()
    }

    /// Whether it did not pass, also because its rule fails closed.
    pub(super) const fn is_refused(&self) -> bool {
        self.outcome == RequestOutcome::Refused as u8
            || self.outcome == RequestOutcome::Denied as u8
            || self.outcome == RequestOutcome::Error as u8
    }
}

/// Writes the record of a request.
#[inline]
pub(super) fn write(
    out: &mut Vec<u8>,
    decision: &Decision,
    outcome: RequestOutcome,
    context: &RequestContext<'_>,
) {
    let begin = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    let has_secrets = write_client(out, decision, context);
    let middle = out.len();
    let binding = write_place(out, decision, context);
    let (client_bytes, place_bytes) = (middle - begin - HEAD_BYTES, out.len() - middle);
    let mut marks = u8::from(decision.would_refuse().is_some()) * mark::WOULD_REFUSE;
    let mut used_percent = 0;
    if decision.is_allowed() && decision.state() != SoftState::Normal {
        marks |= mark::NEAR_LIMIT;
        used_percent = binding;
    }
    marks |= u8::from(context.is_by_policy) * mark::REPLAYABLE;
    marks |= u8::from(has_secrets) * mark::HAS_SECRETS;
    if let Some(head) = out.get_mut(begin..).and_then(|it| it.first_chunk_mut::<HEAD_BYTES>()) {
        let (client, place) =
            ((client_bytes as u16).to_le_bytes(), (place_bytes as u16).to_le_bytes());
        head[..8].copy_from_slice(&[
            outcome as u8,
            marks,
            used_percent,
            0,
            client[0],
            client[1],
            place[0],
            place[1],
        ]);
        head[8..16].copy_from_slice(&decision.now().as_micros().to_le_bytes());
        head[16..].copy_from_slice(&context.request.cost().to_le_bytes());
    }
}

/// Writes who sent a request. Returns whether it has to be looked through for secrets.
#[inline]
fn write_client(out: &mut Vec<u8>, decision: &Decision, context: &RequestContext<'_>) -> bool {
    let get = |attribute| context.request.get(attribute);
    text(out, tag::USER, get(Attribute::UserId));
    let api_key = get(Attribute::ApiKey);
    text(out, tag::API_KEY | tag::SECRET, api_key);
    text(out, tag::IP, get(Attribute::Ip));
    text(out, tag::TENANT, get(Attribute::Tenant));
    text(out, tag::TIER, get(Attribute::Tier));
    let referenced = decision.policy().rules().referenced();
    for it in referenced.iter().take(MAX_NAMED) {
        let (kind, name, attribute) = match &it.identifier {
            Identifier::Header(name) => (tag::HEADER, name, Attribute::Header(name)),
            Identifier::Claim(name) => (tag::CLAIM, name, Attribute::Claim(name)),
            Identifier::Attribute(name) => (tag::CUSTOM, name, Attribute::Custom(name)),
            _ => continue,
        };
        let counted = if it.is_counted { tag::COUNTED } else { 0 };
        let secret = if it.is_counted && it.identifier.is_secret() { tag::SECRET } else { 0 };
        named(out, kind | counted | secret, name, get(attribute));
    }
    for (name, value) in context.entries.iter().take(MAX_NAMED) {
        named(out, tag::ENTRY | tag::COUNTED, name, Some(value));
    }
    api_key.is_some() || !referenced.is_empty() || !context.entries.is_empty()
}

/// Writes what was asked for, and which rule decided. Returns how much of its limit is used, in percent.
#[inline]
fn write_place(out: &mut Vec<u8>, decision: &Decision, context: &RequestContext<'_>) -> u8 {
    let get = |attribute| context.request.get(attribute);
    text(out, tag::METHOD, get(Attribute::Method));
    text(out, tag::HOST, get(Attribute::Host));
    // The key of a check by rule that is not an endpoint may be a secret.
    let path = context.endpoint.and_then(|_| get(Attribute::Path));
    text(out, tag::PATH, path.map(without_query));
    text(out, tag::ASKED_RULE, context.asked_rule);
    let shadow = decision.would_refuse().filter(|_| decision.is_allowed());
    if shadow.is_some() {
        write_shadows(out, decision);
    }
    match decision.binding().or(shadow) {
        Some(binding) => {
            text(out, tag::RULE, Some(&binding.rule.id));
            let (limit, left) = (binding.outcome.limit, binding.outcome.remaining());
            let used = u128::from(limit.saturating_sub(left)) * 100;
            used.checked_div(u128::from(limit)).map_or(100, |used| used.min(100) as u8)
        }
        None => {
            text(out, tag::RULE, decision.refuser().map(|rule| &*rule.id));
            0
        }
    }
}

/// Writes the shadow rules and candidates that would have refused.
#[cold]
fn write_shadows(out: &mut Vec<u8>, decision: &Decision) {
    for rule_id in would_refuse_by(decision) {
        text(out, tag::SHADOW, Some(rule_id));
    }
}

/// A path without its query, which may contain secrets.
fn without_query(path: &str) -> &str {
    path.find(['?', '#']).map_or(path, |end| &path[..end])
}

/// Writes a field, if it has a value.
#[inline]
fn text(out: &mut Vec<u8>, tag: u8, value: Option<&str>) {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return };
    out.push(tag);
    sized(out, shortened(value).as_bytes());
}

fn named(out: &mut Vec<u8>, tag: u8, name: &str, value: Option<&str>) {
    let Some(value) = value.filter(|value| !value.is_empty() && !name.is_empty()) else { return };
    out.push(tag);
    sized(out, shortened(name).as_bytes());
    sized(out, shortened(value).as_bytes());
}

/// Writes 1 to 256 bytes, and their number less one before them.
#[inline]
pub(super) fn sized(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(bytes.len().wrapping_sub(1) as u8);
    out.extend_from_slice(bytes);
}

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordField<'a> {
    /// With its marks.
    pub(super) tag: u8,
    /// Empty for fields that have no name.
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
}

impl<'a> RecordField<'a> {
    pub(super) const fn kind(&self) -> u8 {
        self.tag & tag::KIND
    }

    pub(super) const fn is_hidden(&self) -> bool {
        self.tag & tag::HIDDEN != 0
    }

    pub(super) fn value_text(&self) -> &'a str {
        str::from_utf8(self.value).unwrap_or_default()
    }

    pub(super) fn name_text(&self) -> &'a str {
        str::from_utf8(self.name).unwrap_or_default()
    }
}

/// The fields of a run.
#[derive(Clone, Debug)]
pub(super) struct RecordFields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for RecordFields<'a> {
    type Item = RecordField<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecordField<'a>> {
        let (tag, rest) = self.0.split_first()?;
        self.0 = rest;
        let name: &[u8] = if tag & tag::KIND >= tag::HEADER { self.sized()? } else { &[] };
        Some(RecordField { tag: *tag, name, value: self.sized()? })
    }
}

impl<'a> RecordFields<'a> {
    fn sized(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first()?;
        let (bytes, rest) = rest.split_at_checked(usize::from(*length) + 1)?;
        self.0 = rest;
        Some(bytes)
    }
}
