//! Who an entry of the directory belongs to: kinds of identifiers and their values.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_document::Problem;

use crate::compile::flaw::Flaw;
use crate::directory::by_kind::ClientTable;
use crate::identifier::Identifier;
use crate::matching::network::{ClientText, Network, parse_address};
use crate::matching::path::{self, PathMatcher};
use crate::plan::facts::{EVERYTHING, Facts};
use crate::secret::digest_of_key;

/// The most identifiers in one key.
pub const MAX_IDENTIFIERS: usize = 8;
/// The longest value of an identifier in a document, in bytes.
const MAX_VALUE: usize = 1024;
/// Stands between values. It is no byte of UTF-8, so values cannot run into each other.
pub(crate) const SEPARATOR: u8 = 0xff;

/// The kinds of identifiers that name a client, in their own order: `[tenant, user_id]` and
/// `[user_id, tenant]` are the same. Single kinds come before composite ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IdentifierSet {
    count: usize,
    identifiers: Box<[Identifier]>,
}

/// A client, by the values of one or several identifiers. An API key is kept as its digest.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Client {
    pub(crate) kind: IdentifierSet,
    pub(crate) values: Arc<[u8]>,
}

/// Values joined for a look-up.
type Joined = SmallVec<[u8; 128]>;

impl IdentifierSet {
    pub(crate) fn is_composite(&self) -> bool {
        self.count > 1
    }

    /// Whether this kind is that one identifier.
    pub(crate) fn is(&self, identifier: &Identifier) -> bool {
        *self.identifiers == *std::slice::from_ref(identifier)
    }

    /// Whether every identifier of this kind is among these.
    pub(crate) fn is_part_of(&self, identifiers: &[Identifier]) -> bool {
        self.identifiers.iter().all(|identifier| identifiers.contains(identifier))
    }

    /// Looks up what a request has for this kind, in the form clients are kept in.
    pub(crate) fn look_up<'t, V>(
        &self,
        table: &'t ClientTable<V>,
        facts: &Facts<'_>,
        endpoint: &str,
    ) -> Option<&'t V> {
        if let [single] = &*self.identifiers {
            return table.get(facts.kept_value(single, endpoint)?.as_bytes());
        }
        let mut joined = Joined::new();
        for identifier in &self.identifiers {
            join(&mut joined, facts.kept_value(identifier, endpoint)?);
        }
        table.get(joined.as_slice())
    }
}

impl Client {
    /// The client that documents write as these identifier types and their values.
    ///
    /// # Errors
    /// What is wrong, in `identifier_type` or `identifier`.
    pub fn new<T: AsRef<str>>(types: &[T], values: &[T]) -> Result<Self, Problem> {
        Self::parse(types, values).map_err(Problem::from)
    }

    pub(crate) fn parse<T: AsRef<str>>(types: &[T], values: &[T]) -> Result<Self, Flaw> {
        let kinds = parse_identifiers(types).map_err(|flaw| flaw.within("identifier_type"))?;
        if kinds.len() != values.len() {
            let message = format!("{} identifier types, but {} values", kinds.len(), values.len());
            let advice = "give one value for each identifier type, in the same order";
            return Err(Flaw::new(message, advice).within("identifier"));
        }
        let mut pairs = Vec::with_capacity(kinds.len());
        for (at, (kind, value)) in kinds.into_iter().zip(values).enumerate() {
            let mut value = parse_value(&kind, value.as_ref())
                .map_err(|flaw| in_item(flaw, at, values.len()).within("identifier"))?;
            if kind == Identifier::ApiKey {
                value = digest_of_key(&value).into_owned();
            }
            pairs.push((kind, value));
        }
        pairs.sort_unstable();
        let mut joined = Joined::new();
        pairs.iter().for_each(|(_, value)| join(&mut joined, value));
        let identifiers = pairs.into_iter().map(|(kind, _)| kind).collect::<Box<[_]>>();
        let kind = IdentifierSet { count: identifiers.len(), identifiers };
        Ok(Self { kind, values: joined.as_slice().into() })
    }

    /// The kinds of its identifiers and their values, in the order and form they are kept in: the same
    /// for all ways to write the same client.
    #[must_use]
    pub fn names(&self) -> Vec<(String, String)> {
        let values = self.values.split(|byte| *byte == SEPARATOR);
        let values = values.map(|value| String::from_utf8_lossy(value).into_owned());
        self.kind.identifiers.iter().map(ToString::to_string).zip(values).collect()
    }

    /// Whether the client is named by who it is, and not by what it asks for.
    pub(crate) fn is_named(&self) -> bool {
        self.kind.identifiers.iter().all(Identifier::names_client)
    }
}

fn join(joined: &mut Joined, value: &str) {
    if !joined.is_empty() {
        joined.push(SEPARATOR);
    }
    joined.extend_from_slice(value.as_bytes());
}

/// Reads one identifier type, or several distinct ones.
pub(crate) fn parse_identifiers<T: AsRef<str>>(types: &[T]) -> Result<Vec<Identifier>, Flaw> {
    if types.is_empty() || types.len() > MAX_IDENTIFIERS {
        let message = format!("a key has 1 to {MAX_IDENTIFIERS} identifiers, not {}", types.len());
        return Err(Flaw::new(message, "name what sets clients apart, and nothing else"));
    }
    let mut identifiers = Vec::with_capacity(types.len());
    for (at, text) in types.iter().enumerate() {
        let identifier =
            Identifier::parse(text.as_ref()).map_err(|flaw| in_item(flaw, at, types.len()))?;
        if identifiers.contains(&identifier) {
            let flaw = Flaw::new(format!("{identifier} is there twice"), "remove one of the two");
            return Err(in_item(flaw, at, types.len()));
        }
        identifiers.push(identifier);
    }
    Ok(identifiers)
}

/// A single value stands for itself; of several, the flaw is in one.
fn in_item(flaw: Flaw, at: usize, of: usize) -> Flaw {
    if of == 1 { flaw } else { flaw.within(&format!("[{at}]")) }
}

/// The value in the form that requests have.
pub(crate) fn parse_value(kind: &Identifier, text: &str) -> Result<String, Flaw> {
    if text.is_empty() || text.len() > MAX_VALUE {
        let message = format!("an identifier has 1 to {MAX_VALUE} bytes, not {}", text.len());
        return Err(Flaw::new(message, "write the value that requests will have"));
    }
    match kind {
        Identifier::Ip => parse_client_address(text),
        Identifier::Path => Ok(path::normalise(text).into_owned()),
        Identifier::Endpoint if text == EVERYTHING => Ok(text.to_owned()),
        Identifier::Endpoint => Ok(PathMatcher::parse(text)?.text.to_string()),
        Identifier::Global => Err(Flaw::new(
            "`global` does not name a client",
            "change the rule itself, or name a client",
        )),
        _ => Ok(text.to_owned()),
    }
}

/// One IPv4 address, or one IPv6 site: what counts as one client.
fn parse_client_address(text: &str) -> Result<String, Flaw> {
    let address = match parse_address(text) {
        Some(address) => address,
        None => {
            let network = Network::parse(text)?;
            network.as_client().ok_or_else(|| {
                let advice =
                    "name one address, or the /64 of an IPv6 client; only lists take networks";
                Flaw::new(format!("{network} is more than one client"), advice)
            })?
        }
    };
    Ok(ClientText::new(address).as_str().to_owned())
}

/// As documents write it: one name, or a list.
impl fmt::Display for IdentifierSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.identifiers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if self.is_composite() { write!(f, "[{names}]") } else { f.write_str(&names) }
    }
}

/// The values may be secrets, so they are not shown.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({}, …)", self.kind)
    }
}
