//! One request as rules look at it: every value in the single form it is matched and counted by.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr};

use crate::attributes::{Attribute, Attributes};
use crate::identifier::Identifier;
use crate::matching::host;
use crate::matching::method::Method;
use crate::matching::network::{ClientText, parse_address};
use crate::matching::path::{self, PathCase};
use crate::matching::steps::GlobWork;
use crate::rule::PlainIdentifier;
use crate::secret::SecretDigest;

/// The value of what identifies nothing in particular: `global`, or `endpoint` in a rule that names
/// none.
pub(crate) const EVERYTHING: &str = "*";

/// The attributes of a request, read once and normalised.
pub(crate) struct Facts<'a> {
    attributes: &'a dyn Attributes,
    /// In its normal form, folded.
    pub(crate) path: Option<Cow<'a, str>>,
    pub(crate) path_case: PathCase,
    pub(crate) tenant: Option<&'a str>,
    /// The cost of the request, before rules multiply it.
    pub(crate) cost: u64,
    method: OnceCell<Option<Method<'a>>>,
    address: OnceCell<Option<AddressFact<'a>>>,
    api_key: OnceCell<Option<SecretDigest>>,
    pub(crate) glob_work: GlobWork,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(attributes: &'a dyn Attributes, path_case: PathCase) -> Self {
        let get = |attribute| present(attributes.get(attribute));
        Self {
            attributes,
            path: get(Attribute::Path).map(|path| path_case.fold(path::normalise(path))),
            path_case,
            tenant: get(Attribute::Tenant),
            cost: attributes.cost(),
            method: OnceCell::new(),
            address: OnceCell::new(),
            api_key: OnceCell::new(),
            glob_work: GlobWork::default(),
        }
    }

    pub(crate) fn get(&self, attribute: Attribute<'_>) -> Option<&'a str> {
        present(self.attributes.get(attribute))
    }

    /// Read when the first rule asks for it: many rules hold for all methods.
    pub(crate) fn method(&self) -> Option<Method<'a>> {
        *self.method.get_or_init(|| self.get(Attribute::Method).map(Method::new))
    }

    pub(crate) fn host(&self) -> Option<Cow<'a, str>> {
        self.get(Attribute::Host).and_then(host::normalise)
    }

    /// The address of the client; `None` if it is missing or invalid.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.client_address().map(|client| client.address)
    }

    /// The value of an identifier, where `endpoint` is the pattern that matched. An empty value is
    /// none.
    pub(crate) fn value<'s>(
        &'s self,
        identifier: &Identifier,
        endpoint: &'s str,
    ) -> Option<&'s str> {
        if let Some(attribute) = identifier.attribute() {
            return self.get(attribute);
        }
        match identifier {
            Identifier::Ip => self.client_address().map(AddressFact::text),
            Identifier::Path => self.path.as_deref(),
            Identifier::Endpoint => Some(endpoint),
            _ => Some(EVERYTHING),
        }
    }

    /// The value of the identifier of a plain rule.
    #[inline]
    pub(crate) fn plain_value(&self, identifier: PlainIdentifier) -> Option<&str> {
        match identifier {
            PlainIdentifier::UserId => self.get(Attribute::UserId),
            PlainIdentifier::ApiKey => self.get(Attribute::ApiKey),
            PlainIdentifier::Tenant => self.tenant,
            PlainIdentifier::Ip => self.client_address().map(AddressFact::text),
        }
    }

    /// The value of an identifier in the form in which the directory keeps it: an API key as its digest.
    pub(crate) fn kept_value<'s>(
        &'s self,
        identifier: &Identifier,
        endpoint: &'s str,
    ) -> Option<&'s str> {
        if *identifier != Identifier::ApiKey {
            return self.value(identifier, endpoint);
        }
        if let Some(digest) = self.attributes.api_key_digest() {
            return Some(digest);
        }
        let digest = || self.get(Attribute::ApiKey).map(SecretDigest::new);
        self.api_key.get_or_init(digest).as_ref().map(SecretDigest::as_str)
    }

    fn client_address(&self) -> Option<&AddressFact<'a>> {
        let read = || AddressFact::new(self.get(Attribute::Ip)?);
        self.address.get_or_init(read).as_ref()
    }
}

fn present(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.is_empty())
}

/// Four numbers without leading zeros, as [`Ipv4Addr`] reads them: every request comes through here, and this takes half
/// the time.
fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let (mut rest, mut address) = (text.as_bytes(), 0);
    for part in 0..4 {
        if part > 0 {
            rest = rest.strip_prefix(b".")?;
        }
        let digit = |byte: u8| u32::from(byte - b'0');
        let (number, after) = match rest {
            [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', after @ ..] => {
                (digit(*a) * 100 + digit(*b) * 10 + digit(*c), after)
            }
            [a @ b'1'..=b'9', b @ b'0'..=b'9', after @ ..] => (digit(*a) * 10 + digit(*b), after),
            [a @ b'0'..=b'9', after @ ..] => (digit(*a), after),
            _ => return None,
        };
        address = address << 8 | Some(number).filter(|number| *number < 256)?;
        rest = after;
    }
    rest.is_empty().then(|| Ipv4Addr::from_bits(address))
}

/// An address and the text it is counted by.
struct AddressFact<'a> {
    address: IpAddr,
    text: AddressText<'a>,
}

enum AddressText<'a> {
    /// IPv4 has one spelling, so the text of the request is the right one.
    Given(&'a str),
    Written(ClientText),
}

impl<'a> AddressFact<'a> {
    fn new(given: &'a str) -> Option<Self> {
        if let Some(address) = parse_ipv4(given) {
            return Some(Self { address: address.into(), text: AddressText::Given(given) });
        }
        let address = parse_address(given)?;
        Some(Self { address, text: AddressText::Written(ClientText::new(address)) })
    }

    fn text(&self) -> &str {
        match &self.text {
            AddressText::Given(given) => given,
            AddressText::Written(text) => text.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_is_read_as_the_library_reads_it() {
        let texts = [
            "0.0.0.0",
            "1.2.3.4",
            "10.0.39.15",
            "255.255.255.255",
            "256.1.1.1",
            "1.2.3",
            "1.2.3.4.5",
            "1..2.3",
            ".1.2.3",
            "1.2.3.",
            "01.2.3.4",
            "1.2.3.00",
            "1.2.3.4 ",
            "",
            "....",
            "1.2.3.4:80",
            "1.2.3.x",
            "::1",
            "1.2.3.4.",
            "999.1.1.1",
            "1.2.3.0256",
            "0.0.0.00",
        ];
        for text in texts {
            assert_eq!(parse_ipv4(text), text.parse().ok(), "{text}");
        }
    }
}
