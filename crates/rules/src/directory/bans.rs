//! Clients that a rule refuses for a while, because they kept exceeding its limit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::Timestamp;

use crate::compile::flaw::Flaw;
use crate::directory::client::{SEPARATOR, parse_value};
use crate::directory::expiry::is_over;
use crate::directory::table::Table;
use crate::identifier::Identifier;
use crate::rule::Rule;

/// A client as one rule counts it: the values of the rule's identifiers, in their order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(Arc<[u8]>);

/// The longest value, as JSON, that is kept as it is where there is a [`Digest`]: with eight of them, the
/// name of a ban still fits into the index of a database.
const MAX_PLAIN_JSON_BYTES: usize = 160;
/// The hexadecimal digits of a digest.
const DIGEST_DIGITS: usize = 64;

/// What is kept of a secret, or of a long value, in its place, so that bans can be written down and shown.
#[derive(Clone, Copy, Debug)]
pub struct Digest {
    /// What every digest begins with.
    pub prefix: &'static str,
    /// Makes one, with the prefix: the same on every node.
    pub of: fn(&str) -> String,
}

impl Digest {
    /// Whether a text is one of these digests.
    #[must_use]
    pub fn made(&self, text: &str) -> bool {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let digits = text.strip_prefix(self.prefix);
        digits.is_some_and(|it| it.len() == DIGEST_DIGITS && it.bytes().all(is_digit))
    }

    /// Whether a value that is no secret is kept as its digest: if it is long, or could be taken for the
    /// digest of another one.
    fn is_needed(&self, value: &[u8]) -> bool {
        // An escaped byte takes six at most.
        (value.len() > MAX_PLAIN_JSON_BYTES / 6 && json_bytes(value) > MAX_PLAIN_JSON_BYTES)
            || value.starts_with(self.prefix.as_bytes())
    }
}

/// How many bytes a text takes as JSON, without the quotes; at most.
fn json_bytes(text: &[u8]) -> usize {
    let bytes = text.iter().map(|byte| match byte {
        b'"' | b'\\' => 2,
        0..=0x1f => 6,
        _ => 1,
    });
    bytes.sum()
}

/// Bytes joined for a look-up.
type JoinedBan = SmallVec<[u8; 192]>;

impl Subject {
    /// The client that is written as these values.
    #[must_use]
    pub fn new<T: AsRef<str>>(values: &[T]) -> Self {
        let mut joined = JoinedBan::new();
        join(&mut joined, values.iter().map(|value| value.as_ref().as_bytes()));
        Self(joined.as_slice().into())
    }

    /// The values it is written as.
    #[must_use]
    pub fn values(&self) -> Vec<String> {
        let values = self.0.split(|byte| *byte == SEPARATOR);
        values.map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }

    /// The values in a form that cannot collide.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The values may be secrets, so they are not shown.
impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subject({} bytes)", self.0.len())
    }
}

/// When each ban ends, by rule and client.
#[derive(Clone, Default)]
pub(crate) struct Bans {
    /// Most policies never have one.
    table: Option<Table<Arc<[u8]>, Option<Timestamp>>>,
    /// How many bans each rule has, those that have ended included.
    by_rule: Arc<BTreeMap<Arc<str>, usize>>,
    pub(crate) digest: Option<Digest>,
}

impl Bans {
    pub(crate) fn set(&mut self, rule_id: &str, subject: &Subject, until: Option<Timestamp>) {
        let table = self.table.get_or_insert_default();
        let before = table.len();
        table.change(place(rule_id, &subject.0).as_slice().into(), |end| *end = until);
        let after = table.len();
        if after == 0 {
            self.table = None;
        }
        if before != after {
            self.count(rule_id, after > before);
        }
    }

    fn count(&mut self, rule_id: &str, is_new: bool) {
        let by_rule = Arc::make_mut(&mut self.by_rule);
        match by_rule.get_mut(rule_id) {
            Some(count) if is_new => *count += 1,
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => drop(by_rule.remove(rule_id)),
            None => drop(by_rule.insert(rule_id.into(), 1)),
        }
    }

    /// Removes all bans by a rule.
    pub(crate) fn remove_rule(&mut self, rule_id: &str) {
        for subject in self.subjects_of(rule_id) {
            self.set(rule_id, &subject, None);
        }
    }

    /// The clients that a rule has banned.
    pub(crate) fn subjects_of(&self, rule_id: &str) -> Vec<Subject> {
        if self.len_of(rule_id) == 0 {
            return Vec::new();
        }
        let prefix = place(rule_id, &[]);
        let keys = self.table.iter().flat_map(Table::keys);
        let subjects = keys.filter_map(|key| key.strip_prefix(prefix.as_slice()));
        subjects.map(|subject| Subject(subject.into())).collect()
    }

    /// How many bans a rule has.
    pub(crate) fn len_of(&self, rule_id: &str) -> usize {
        self.by_rule.get(rule_id).copied().unwrap_or(0)
    }

    /// How many bans each rule has, for those that have any.
    pub(crate) fn by_rule(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.by_rule.iter().map(|(rule_id, count)| (rule_id, *count))
    }

    pub(crate) fn len(&self) -> usize {
        self.table.as_ref().map_or(0, Table::len)
    }

    /// How many have not ended.
    pub(crate) fn in_force(&self, now: Timestamp) -> usize {
        let ends = self.table.iter().flat_map(Table::values);
        ends.filter(|end| !is_over(**end, now)).count()
    }

    pub(crate) fn end(&self, rule_id: &str, subject: &Subject) -> Option<Timestamp> {
        *self.table.as_ref()?.get(place(rule_id, &subject.0).as_slice())?
    }

    /// Until when the rule refuses the client whose identifiers have these values, if it does.
    pub(crate) fn until<'v>(
        &self,
        rule: &Rule,
        values: impl Iterator<Item = &'v [u8]>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let table = self.table.as_ref()?;
        let mut key = place(&rule.id, &[]);
        self.join_discreetly(&mut key, &rule.identifiers, values);
        (*table.get(key.as_slice())?).filter(|end| !is_over(Some(*end), now))
    }

    /// The client whose identifiers have these values.
    pub(crate) fn subject<'v>(
        &self,
        identifiers: &[Identifier],
        values: impl Iterator<Item = &'v [u8]>,
    ) -> Subject {
        let mut joined = JoinedBan::new();
        self.join_discreetly(&mut joined, identifiers, values);
        Subject(joined.as_slice().into())
    }

    /// The client that people write as these values, in the form in which requests have them. A
    /// secret or a long value can be given itself, or as its digest.
    pub(crate) fn parse_subject<T: AsRef<str>>(
        &self,
        rule: &Rule,
        values: &[T],
    ) -> Result<Subject, Flaw> {
        let identifiers = &rule.identifiers;
        if identifiers.len() != values.len() {
            let names = identifiers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let message = format!("{} values, but the rule counts by {names}", values.len());
            return Err(Flaw::new(message, "give one value for each, in the same order"));
        }
        let mut parsed = Vec::with_capacity(values.len());
        for (identifier, value) in identifiers.iter().zip(values) {
            let value = value.as_ref();
            parsed.push(match (identifier, self.digest) {
                (Identifier::Global, _) => value.to_owned(),
                (secret, Some(digest)) if secret.is_secret() => {
                    if value.starts_with(digest.prefix) {
                        value.to_owned()
                    } else {
                        (digest.of)(value)
                    }
                }
                (_, Some(digest)) if digest.made(value) => value.to_owned(),
                (identifier, digest) => {
                    let parsed = parse_value(identifier, value)?;
                    match digest.filter(|digest| digest.is_needed(parsed.as_bytes())) {
                        Some(digest) => (digest.of)(&parsed),
                        None => parsed,
                    }
                }
            });
        }
        Ok(Subject::new(&parsed))
    }

    /// Joins values, with digests in place of secrets and of long values.
    fn join_discreetly<'v>(
        &self,
        joined: &mut JoinedBan,
        identifiers: &[Identifier],
        values: impl Iterator<Item = &'v [u8]>,
    ) {
        for (at, (identifier, value)) in identifiers.iter().zip(values).enumerate() {
            if at > 0 {
                joined.push(SEPARATOR);
            }
            match self.digest {
                // Keys have long values as digests already.
                Some(digest) if str::from_utf8(value).is_ok_and(|text| digest.made(text)) => {
                    joined.extend_from_slice(value);
                }
                Some(digest) if identifier.is_secret() || digest.is_needed(value) => {
                    let digest = (digest.of)(&String::from_utf8_lossy(value));
                    joined.extend_from_slice(digest.as_bytes());
                }
                _ => joined.extend_from_slice(value),
            }
        }
    }
}

/// Where the ban of a client by a rule is kept.
fn place(rule_id: &str, subject: &[u8]) -> JoinedBan {
    let mut place = JoinedBan::from_slice(rule_id.as_bytes());
    place.push(SEPARATOR);
    place.extend_from_slice(subject);
    place
}

fn join<'v>(joined: &mut JoinedBan, values: impl Iterator<Item = &'v [u8]>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            joined.push(SEPARATOR);
        }
        joined.extend_from_slice(value);
    }
}

/// The values of a key, one by one.
pub(crate) fn values_of<'k>(first: &'k [u8], rest: &'k [u8]) -> impl Iterator<Item = &'k [u8]> {
    let rest = (!rest.is_empty()).then(|| rest.split(|byte| *byte == SEPARATOR));
    std::iter::once(first).chain(rest.into_iter().flatten())
}
