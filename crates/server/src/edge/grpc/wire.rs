//! Reads checks from the bytes of a message, without copying their texts.
//!
//! Only the usual encoding is read here. Whatever else a message holds (unknown fields, a field twice, text that is not
//! UTF-8) is left to the library, which reads it or names the problem.

use std::collections::BTreeMap;

use tollgate_api::Text;

use super::definitions::tollgate::v1::{CheckRequest, Identifiers};

/// A check as a message has it. An empty text is an absent one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WireCheck<'a> {
    pub(super) identifier: &'a str,
    pub(super) dimension: &'a str,
    pub(super) endpoint: &'a str,
    pub(super) cost: Option<u64>,
    pub(super) timestamp: Option<WireTime>,
    pub(super) rule_id: &'a str,
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    pub(super) tier: &'a str,
    pub(super) identifiers: Option<WireIdentifiers<'a>>,
    pub(super) attributes: BTreeMap<Text<'a>, Text<'a>>,
    pub(super) idempotency_key: &'a str,
    pub(super) detail: bool,
}

/// The clock of a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WireTime {
    pub(super) seconds: i64,
    pub(super) nanos: i32,
}

/// The identifiers of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WireIdentifiers<'a> {
    pub(super) user_id: &'a str,
    pub(super) api_key: &'a str,
    pub(super) ip: &'a str,
    pub(super) tenant: &'a str,
}

impl<'a> From<&'a CheckRequest> for WireCheck<'a> {
    fn from(request: &'a CheckRequest) -> Self {
        let attributes = request.attributes.iter();
        Self {
            identifier: &request.identifier,
            dimension: &request.dimension,
            endpoint: &request.endpoint,
            cost: request.cost,
            timestamp: request
                .timestamp
                .as_ref()
                .map(|sent| WireTime { seconds: sent.seconds, nanos: sent.nanos }),
            rule_id: &request.rule_id,
            method: &request.method,
            host: &request.host,
            tier: &request.tier,
            identifiers: request.identifiers.as_ref().map(
                |Identifiers { user_id, api_key, ip, tenant }| WireIdentifiers {
                    user_id,
                    api_key,
                    ip,
                    tenant,
                },
            ),
            attributes: attributes
                .map(|(name, value)| (Text::from(&**name), Text::from(&**value)))
                .collect(),
            idempotency_key: &request.idempotency_key,
            detail: request.detail,
        }
    }
}

/// The key of a field: its number, and how its value is encoded.
const fn varint(number: u64) -> u64 {
    number << 3
}

const fn bytes(number: u64) -> u64 {
    number << 3 | 2
}

const IDENTIFIER: u64 = bytes(1);
const DIMENSION: u64 = bytes(2);
const ENDPOINT: u64 = bytes(3);
const COST: u64 = varint(4);
const TIMESTAMP: u64 = bytes(5);
const RULE_ID: u64 = bytes(6);
const METHOD: u64 = bytes(7);
const HOST: u64 = bytes(8);
const TIER: u64 = bytes(9);
const IDENTIFIERS: u64 = bytes(10);
const ATTRIBUTES: u64 = bytes(11);
const IDEMPOTENCY_KEY: u64 = bytes(12);
const DETAIL: u64 = varint(13);
/// The checks of a batch.
const CHECKS: u64 = bytes(1);

impl<'a> WireCheck<'a> {
    /// Reads a `CheckRequest`; `None` if the library has to.
    pub(super) fn read(message: &'a [u8]) -> Option<Self> {
        let mut check = Self::default();
        let mut rest = UnreadFields(message);
        while let Some(key) = rest.key() {
            match key? {
                IDENTIFIER => check.identifier = rest.text()?,
                DIMENSION => check.dimension = rest.text()?,
                ENDPOINT => check.endpoint = rest.text()?,
                COST => check.cost = Some(rest.varint()?),
                TIMESTAMP if check.timestamp.is_none() => {
                    check.timestamp = Some(WireTime::read(rest.bytes()?)?);
                }
                RULE_ID => check.rule_id = rest.text()?,
                METHOD => check.method = rest.text()?,
                HOST => check.host = rest.text()?,
                TIER => check.tier = rest.text()?,
                IDENTIFIERS if check.identifiers.is_none() => {
                    check.identifiers = Some(WireIdentifiers::read(rest.bytes()?)?);
                }
                ATTRIBUTES => {
                    let (name, value) = attribute(rest.bytes()?)?;
                    check.attributes.insert(Text::from(name), Text::from(value));
                }
                IDEMPOTENCY_KEY => check.idempotency_key = rest.text()?,
                DETAIL => check.detail = rest.varint()? != 0,
                _ => return None,
            }
        }
        Some(check)
    }

    /// Reads a `CheckBatchRequest` of `most` checks at most; `None` if the library has to.
    pub(super) fn read_batch(message: &'a [u8], most: usize) -> Option<Vec<Self>> {
        // Counted first: of a batch that is too large, no check is kept.
        let mut count = 0;
        let mut rest = UnreadFields(message);
        while let Some(key) = rest.key() {
            key.filter(|key| *key == CHECKS)?;
            rest.bytes()?;
            count += 1;
        }
        if count > most {
            return None;
        }
        let mut checks = Vec::with_capacity(count);
        let mut rest = UnreadFields(message);
        while let Some(Some(_)) = rest.key() {
            checks.push(Self::read(rest.bytes()?)?);
        }
        Some(checks)
    }
}

impl WireTime {
    fn read(message: &[u8]) -> Option<Self> {
        const SECONDS: u64 = varint(1);
        const NANOS: u64 = varint(2);
        let mut time = Self::default();
        let mut rest = UnreadFields(message);
        while let Some(key) = rest.key() {
            match key? {
                SECONDS => time.seconds = rest.varint()?.cast_signed(),
                NANOS => time.nanos = rest.varint()? as i32,
                _ => return None,
            }
        }
        Some(time)
    }
}

impl<'a> WireIdentifiers<'a> {
    fn read(message: &'a [u8]) -> Option<Self> {
        const USER_ID: u64 = bytes(1);
        const API_KEY: u64 = bytes(2);
        const IP: u64 = bytes(3);
        const TENANT: u64 = bytes(4);
        let mut identifiers = Self::default();
        let mut rest = UnreadFields(message);
        while let Some(key) = rest.key() {
            match key? {
                USER_ID => identifiers.user_id = rest.text()?,
                API_KEY => identifiers.api_key = rest.text()?,
                IP => identifiers.ip = rest.text()?,
                TENANT => identifiers.tenant = rest.text()?,
                _ => return None,
            }
        }
        Some(identifiers)
    }
}

/// An entry of a map.
fn attribute(message: &[u8]) -> Option<(&str, &str)> {
    const NAME: u64 = bytes(1);
    const VALUE: u64 = bytes(2);
    let (mut name, mut value) = ("", "");
    let mut rest = UnreadFields(message);
    while let Some(key) = rest.key() {
        match key? {
            NAME => name = rest.text()?,
            VALUE => value = rest.text()?,
            _ => return None,
        }
    }
    Some((name, value))
}

/// The part of a message that is not read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnreadFields<'a>(pub(super) &'a [u8]);

impl<'a> UnreadFields<'a> {
    /// The key of the next field; the outer `None` is the end of the message.
    #[inline]
    pub(super) fn key(&mut self) -> Option<Option<u64>> {
        (!self.0.is_empty()).then(|| self.varint())
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        if *first < 0x80 {
            self.0 = rest;
            return Some(u64::from(*first));
        }
        self.long_varint()
    }

    /// A number of several bytes. Those of ten bytes are negative or too large.
    fn long_varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for (place, byte) in self.0.iter().enumerate().take(9) {
            number |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                self.0 = &self.0[place + 1..];
                return Some(number);
            }
        }
        None
    }

    #[inline]
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    #[inline]
    pub(super) fn text(&mut self) -> Option<&'a str> {
        str::from_utf8(self.bytes()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;

    use super::super::definitions::tollgate::v1::CheckBatchRequest;
    use super::*;

    fn request() -> impl Strategy<Value = CheckRequest> {
        let text = || prop_oneof![Just(String::new()), "[a-zé]{1,200}"];
        let time = (any::<i64>(), any::<i32>());
        let time = time.prop_map(|(seconds, nanos)| prost_types::Timestamp { seconds, nanos });
        let identifiers = (text(), text(), text(), text());
        let identifiers = identifiers.prop_map(|(user_id, api_key, ip, tenant)| Identifiers {
            user_id,
            api_key,
            ip,
            tenant,
        });
        let texts = (text(), text(), text(), text(), text(), text(), text(), text());
        let attributes = prop::collection::hash_map(text(), text(), 0..4);
        let rest = (prop::option::of(any::<u64>()), prop::option::of(time), any::<bool>());
        (texts, prop::option::of(identifiers), attributes, rest).prop_map(
            |(texts, identifiers, attributes, (cost, timestamp, detail))| CheckRequest {
                identifier: texts.0,
                dimension: texts.1,
                endpoint: texts.2,
                rule_id: texts.3,
                method: texts.4,
                host: texts.5,
                tier: texts.6,
                idempotency_key: texts.7,
                cost,
                timestamp,
                identifiers,
                attributes,
                detail,
            },
        )
    }

    proptest! {
        /// What is read here is what the library reads.
        #[test]
        fn checks_are_read_as_the_library_reads_them(checks in prop::collection::vec(request(), 1..4)) {
            for check in &checks {
                let message = check.encode_to_vec();
                let is_left_to_library = check.cost.is_some_and(|cost| cost >> 63 == 1)
                    || check.timestamp.is_some_and(|time| time.seconds < 0 || time.nanos < 0);
                match WireCheck::read(&message) {
                    Some(read) => prop_assert_eq!(read, WireCheck::from(check)),
                    None => prop_assert!(is_left_to_library, "{:?}", check),
                }
            }
            let batch = CheckBatchRequest { checks };
            let message = batch.encode_to_vec();
            prop_assert_eq!(WireCheck::read_batch(&message, batch.checks.len() - 1), None);
            if let Some(read) = WireCheck::read_batch(&message, batch.checks.len()) {
                let expected: Vec<WireCheck<'_>> = batch.checks.iter().map(WireCheck::from).collect();
                prop_assert_eq!(read, expected);
            }
        }

        /// Of any bytes, nothing is read that the library would not read, or would read otherwise.
        #[test]
        fn whatever_is_read_the_library_reads_too(
            mut message in request().prop_map(|check| check.encode_to_vec()),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            for (place, byte) in changes {
                if !message.is_empty() {
                    let place = place.index(message.len());
                    message[place] = byte;
                }
            }
            if let Some(read) = WireCheck::read(&message) {
                let expected = CheckRequest::decode(&*message).expect("it was read");
                prop_assert_eq!(read, WireCheck::from(&expected));
            }
        }
    }

    #[test]
    fn unusual_messages_are_left_to_the_library() {
        let check = |message: &[u8], is_read: bool| {
            assert_eq!(WireCheck::read(message).is_some(), is_read, "{message:?}");
        };
        check(b"", true);
        check(b"\x0a\x01u", true);
        // Text that is not UTF-8, a length beyond the end, another encoding, an unknown field, a field twice.
        check(b"\x0a\x01\xff", false);
        check(b"\x0a\x02u", false);
        check(b"\x08\x01", false);
        check(b"\xf2\x01\x00", false);
        check(b"\x52\x00", true);
        check(b"\x52\x00\x52\x00", false);
        check(b"\x2a\x00\x2a\x00", false);
        // The last of two texts counts, as for the library.
        assert_eq!(WireCheck::read(b"\x0a\x01a\x0a\x01b").map(|check| check.identifier), Some("b"));
    }
}
