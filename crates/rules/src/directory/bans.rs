//! Clients that a rule refuses for a while, because they kept exceeding its limit.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::Timestamp;

use crate::compile::flaw::Flaw;
use crate::directory::client::{SEPARATOR, parse_value};
use crate::directory::expiry::is_over;
use crate::directory::table::Table;
use crate::identifier::Identifier;
use crate::ruleset::Rule;

/// A client as one rule counts it: the values of the rule's identifiers, in their order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(Arc<[u8]>);

/// What is kept of a secret in its place, so that bans can be written down and shown.
#[derive(Clone, Copy, Debug)]
pub struct Digest {
    /// What every digest begins with.
    pub prefix: &'static str,
    /// Makes one, with the prefix: the same on every node.
    pub of: fn(&str) -> String,
}

/// Bytes joined for a look-up.
type Joined = SmallVec<[u8; 192]>;

impl Subject {
    /// The client that is written as these values.
    #[must_use]
    pub fn new<T: AsRef<str>>(values: &[T]) -> Self {
        let mut joined = Joined::new();
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
    pub(crate) digest: Option<Digest>,
}

impl Bans {
    pub(crate) fn set(&mut self, rule_id: &str, subject: &Subject, until: Option<Timestamp>) {
        let table = self.table.get_or_insert_default();
        table.change(place(rule_id, &subject.0).as_slice().into(), |end| *end = until);
        if table.len() == 0 {
            self.table = None;
        }
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
        let mut joined = Joined::new();
        self.join_discreetly(&mut joined, identifiers, values);
        Subject(joined.as_slice().into())
    }

    /// The client that people write as these values, in the form in which requests have them. A
    /// secret can be given itself, or as its digest.
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
                (identifier, _) => parse_value(identifier, value)?,
            });
        }
        Ok(Subject::new(&parsed))
    }

    /// Joins values, with digests in place of secrets.
    fn join_discreetly<'v>(
        &self,
        joined: &mut Joined,
        identifiers: &[Identifier],
        values: impl Iterator<Item = &'v [u8]>,
    ) {
        for (at, (identifier, value)) in identifiers.iter().zip(values).enumerate() {
            if at > 0 {
                joined.push(SEPARATOR);
            }
            match self.digest {
                Some(digest) if identifier.is_secret() => {
                    let digest = (digest.of)(&String::from_utf8_lossy(value));
                    joined.extend_from_slice(digest.as_bytes());
                }
                _ => joined.extend_from_slice(value),
            }
        }
    }
}

/// Where the ban of a client by a rule is kept.
fn place(rule_id: &str, subject: &[u8]) -> Joined {
    let mut place = Joined::from_slice(rule_id.as_bytes());
    place.push(SEPARATOR);
    place.extend_from_slice(subject);
    place
}

fn join<'v>(joined: &mut Joined, values: impl Iterator<Item = &'v [u8]>) {
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
