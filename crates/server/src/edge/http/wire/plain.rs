//! Reads the JSON of checks as clients usually write it, several times as fast as a deserializer that has to find out
//! what each field is.
//!
//! Whatever is less usual (escapes, `null`, a field twice or unknown, anything invalid) is left to the deserializer,
//! which reads it or names the problem.

use std::collections::BTreeMap;

use tollgate_api::{CheckRequest, Identifiers, KeyType, Object, Text};

use super::check::CheckBody;

/// How many bytes a short check takes, with which the number of checks in a batch is estimated.
const SHORT_CHECK_BYTES: usize = 48;
/// How many checks memory is allocated for at first, at most.
const MAX_CHECKS_CAPACITY: usize = 1_024;

/// Reads a check; `None` if the deserializer has to.
pub(crate) fn read_check(body: &[u8]) -> Option<CheckBody<'_>> {
    let mut rest = UnreadJson::of(body)?;
    let mut check = CheckBody::default();
    rest.check(&mut check.0)?;
    rest.end()?;
    Some(check)
}

/// Reads the checks of a batch; `None` if the deserializer has to.
pub(crate) fn read_batch(body: &[u8]) -> Option<Vec<CheckBody<'_>>> {
    let mut rest = UnreadJson::of(body)?;
    rest.byte(b'{')?;
    if rest.name()? != "checks" {
        return None;
    }
    rest.byte(b'[')?;
    let capacity = (body.len() / SHORT_CHECK_BYTES + 1).min(MAX_CHECKS_CAPACITY);
    let mut checks = Vec::with_capacity(capacity);
    loop {
        // Read in place: it is large.
        checks.push(CheckBody::default());
        rest.check(&mut checks.last_mut()?.0)?;
        if !rest.is_followed(b']')? {
            break;
        }
    }
    rest.byte(b'}')?;
    rest.end()?;
    Some(checks)
}

/// The part of a body that is not read yet.
struct UnreadJson<'a> {
    text: &'a str,
    place: usize,
}

/// Sets a field that must not be set already: the deserializer refuses a field that is there twice.
fn set<T>(field: &mut Option<T>, value: T) -> Option<()> {
    if field.is_some() {
        return None;
    }
    *field = Some(value);
    Some(())
}

impl<'a> UnreadJson<'a> {
    fn of(body: &'a [u8]) -> Option<Self> {
        Some(Self { text: str::from_utf8(body).ok()?, place: 0 })
    }

    fn check(&mut self, check: &mut CheckRequest<'a>) -> Option<()> {
        self.fields(|rest, name| match name {
            "rule_id" => set(&mut check.rule_id, rest.text()?),
            "key_type" => set(&mut check.key_type, rest.key_type()?),
            "key_value" => set(&mut check.key_value, rest.text()?),
            "request_count" => set(&mut check.request_count, rest.number()?),
            "identifiers" => set(&mut check.identifiers, rest.identifiers()?),
            "endpoint" => set(&mut check.endpoint, rest.text()?),
            "method" => set(&mut check.method, rest.text()?),
            "host" => set(&mut check.host, rest.text()?),
            "tier" => set(&mut check.tier, rest.text()?),
            "attributes" => set(&mut check.attributes, rest.attributes()?),
            "cost" => set(&mut check.cost, rest.number()?),
            "detail" => set(&mut check.detail, rest.boolean()?),
            "idempotency_key" => set(&mut check.idempotency_key, rest.text()?),
            _ => None,
        })
    }

    fn identifiers(&mut self) -> Option<Object<Identifiers<'a>>> {
        let mut identifiers = Identifiers::default();
        self.fields(|rest, name| match name {
            "user_id" => set(&mut identifiers.user_id, rest.text()?),
            "api_key" => set(&mut identifiers.api_key, rest.text()?),
            "ip" => set(&mut identifiers.ip, rest.text()?),
            "tenant" => set(&mut identifiers.tenant, rest.text()?),
            _ => None,
        })?;
        Some(Object(identifiers))
    }

    fn attributes(&mut self) -> Option<BTreeMap<Text<'a>, Text<'a>>> {
        let mut attributes = BTreeMap::new();
        self.fields(|rest, name| {
            attributes.insert(Text::from(name), rest.text()?);
            Some(())
        })?;
        Some(attributes)
    }

    /// Reads an object, field by field.
    #[inline]
    fn fields(&mut self, mut read: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.byte(b'{')?;
        if self.peek()? == b'}' {
            self.place += 1;
            return Some(());
        }
        loop {
            let name = self.name()?;
            read(self, name)?;
            if !self.is_followed(b'}')? {
                return Some(());
            }
        }
    }

    /// The name of a field and the colon after it.
    #[inline]
    fn name(&mut self) -> Option<&'a str> {
        let name = self.string()?;
        self.byte(b':')?;
        Some(name)
    }

    /// Whether an item is followed by another one, and not by the end of its list.
    #[inline]
    fn is_followed(&mut self, end: u8) -> Option<bool> {
        let next = self.peek()?;
        self.place += 1;
        match next {
            b',' => Some(true),
            next if next == end => Some(false),
            _ => None,
        }
    }

    #[inline]
    fn text(&mut self) -> Option<Text<'a>> {
        self.string().map(Text::from)
    }

    /// A string without escapes.
    #[inline]
    fn string(&mut self) -> Option<&'a str> {
        self.byte(b'"')?;
        let rest = self.text.as_bytes().get(self.place..)?;
        let length = plain_length(rest);
        if rest.get(length) != Some(&b'"') {
            return None;
        }
        let start = self.place;
        self.place += length + 1;
        self.text.get(start..start + length)
    }

    fn key_type(&mut self) -> Option<KeyType> {
        Some(match self.string()? {
            "user" | "user_id" => KeyType::User,
            "api_key" | "apikey" => KeyType::ApiKey,
            "ip" => KeyType::Ip,
            "tenant" => KeyType::Tenant,
            "endpoint" => KeyType::Endpoint,
            "custom" => KeyType::Custom,
            _ => return None,
        })
    }

    /// A whole number of at most eighteen digits, so that it cannot overflow.
    fn number(&mut self) -> Option<u64> {
        self.peek()?;
        let rest = self.text.as_bytes().get(self.place..)?;
        let count = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        let digits = rest.get(..count).filter(|digits| digits.len() <= 18)?;
        let is_valid = match digits {
            [] => false,
            [b'0', ..] => digits.len() == 1,
            _ => !matches!(rest.get(count), Some(b'.' | b'e' | b'E')),
        };
        self.place += count;
        is_valid.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
    }

    fn boolean(&mut self) -> Option<bool> {
        self.peek()?;
        let rest = self.text.get(self.place..)?;
        let (value, length) = match rest {
            _ if rest.starts_with("true") => (true, 4),
            _ if rest.starts_with("false") => (false, 5),
            _ => return None,
        };
        self.place += length;
        Some(value)
    }

    /// Steps over this byte, and over white space before it.
    #[inline]
    fn byte(&mut self, expected: u8) -> Option<()> {
        if self.peek()? != expected {
            return None;
        }
        self.place += 1;
        Some(())
    }

    /// The next byte that is not white space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.place)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.place += 1,
                byte => return Some(*byte),
            }
        }
    }

    /// Nothing but white space is left.
    fn end(&mut self) -> Option<()> {
        if self.peek().is_none() { Some(()) } else { None }
    }
}

/// The number of bytes before one that ends a string, or needs a closer look: a quote, a backslash, a control character.
/// Eight bytes are compared at a time.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    while let Some(word) = bytes.get(length..).and_then(<[u8]>::first_chunk) {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return length + (special.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    let rest = bytes.get(length..).unwrap_or_default();
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    length + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// Sets the highest bit of each such byte of a word. Bytes above the lowest of them may be wrong: a subtraction borrows
/// from them.
#[inline]
const fn special_bytes(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGHEST: u64 = EACH << 7;
    let controls = word.wrapping_sub(EACH * 0x20) & !word;
    let quotes = word ^ (EACH * b'"' as u64);
    let quotes = quotes.wrapping_sub(EACH) & !quotes;
    let backslashes = word ^ (EACH * b'\\' as u64);
    let backslashes = backslashes.wrapping_sub(EACH) & !backslashes;
    (controls | quotes | backslashes) & HIGHEST
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_api::BatchRequest;

    use super::*;

    fn check() -> impl Strategy<Value = CheckRequest<'static>> {
        let text = || prop::option::of("[a-zé:/ ]{0,20}".prop_map(Text::from));
        let key_types = [KeyType::User, KeyType::ApiKey, KeyType::Ip, KeyType::Tenant];
        let key_types = key_types.into_iter().chain([KeyType::Endpoint, KeyType::Custom]);
        let key_type = prop::option::of(prop::sample::select(key_types.collect::<Vec<_>>()));
        let identifiers =
            (text(), text(), text(), text()).prop_map(|(user_id, api_key, ip, tenant)| {
                Object(Identifiers { user_id, api_key, ip, tenant })
            });
        let attributes = prop::collection::btree_map("[a-z:]{0,4}", "[a-z\"]{0,4}", 0..3);
        let attributes = attributes.prop_map(|attributes| {
            let attributes = attributes.into_iter();
            attributes.map(|(name, value)| (Text::from(name), Text::from(value))).collect()
        });
        let texts = (text(), text(), text(), text(), text(), text(), text());
        let numbers = (prop::option::of(any::<u64>()), prop::option::of(0..99_u64));
        let rest = (key_type, prop::option::of(identifiers), prop::option::of(attributes));
        (texts, numbers, rest, prop::option::of(any::<bool>())).prop_map(
            |(texts, (request_count, cost), (key_type, identifiers, attributes), detail)| {
                CheckRequest {
                    rule_id: texts.0,
                    key_type,
                    key_value: texts.1,
                    request_count,
                    identifiers,
                    endpoint: texts.2,
                    method: texts.3,
                    host: texts.4,
                    tier: texts.5,
                    attributes,
                    cost,
                    detail,
                    idempotency_key: texts.6,
                }
            },
        )
    }

    fn read_as_deserialized(body: &[u8]) -> Result<bool, TestCaseError> {
        let read = read_check(body);
        if let Some(read) = &read {
            let expected = serde_json::from_slice::<Object<CheckRequest<'_>>>(body);
            prop_assert_eq!(&read.0, &expected.expect("it was read").0);
        }
        let is_read = read.is_some();
        let batch = [br#"{"checks":["#, body, b",", body, b"]}"].concat();
        let read = read_batch(&batch);
        prop_assert_eq!(read.is_some(), is_read);
        if let Some(read) = read {
            let expected = serde_json::from_slice::<BatchRequest<'_>>(&batch).expect("it was read");
            let read: Vec<_> = read.into_iter().map(|check| check.0).collect();
            prop_assert_eq!(read, expected.checks);
        }
        Ok(is_read)
    }

    proptest! {
        #[test]
        fn checks_are_read_as_they_are_deserialized(check in check()) {
            let is_large = check.request_count.is_some_and(|count| count >= 10_u64.pow(18));
            let is_escaped = check.attributes.iter().flatten().any(|(_, value)| value.contains('"'));
            for body in [serde_json::to_vec(&check), serde_json::to_vec_pretty(&check)] {
                let is_read = read_as_deserialized(&body.expect("JSON"))?;
                prop_assert_eq!(is_read, !is_large && !is_escaped);
            }
        }

        /// Of any bytes, nothing is read that the deserializer would refuse, or would read otherwise.
        #[test]
        fn nothing_is_read_that_is_invalid(
            check in check(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut body = serde_json::to_vec(&check).expect("JSON");
            for (place, byte) in changes {
                let place = place.index(body.len());
                body[place] = byte;
            }
            read_as_deserialized(&body)?;
        }
    }

    #[test]
    fn strings_end_at_the_first_special_byte() {
        for byte in 0..=u8::MAX {
            let is_special = matches!(byte, b'"' | b'\\' | 0..0x20);
            for place in 0..20 {
                let mut bytes = [b'a'; 20];
                bytes[place] = byte;
                assert_eq!(plain_length(&bytes), if is_special { place } else { 20 }, "{bytes:?}");
                // What follows does not matter, nor does what is before.
                bytes[place + 1..].fill(b'"');
                bytes[..place].fill(0xff);
                let expected = if is_special { place } else { (place + 1).min(20) };
                assert_eq!(plain_length(&bytes), expected, "{bytes:?}");
            }
        }
    }

    #[test]
    fn unusual_checks_are_left_to_the_deserializer() {
        let check = |body: &str, expected: bool| {
            assert_eq!(read_check(body.as_bytes()).is_some(), expected, "{body}");
        };
        check("{}", true);
        check(" { \"cost\" : 10 ,\n\"detail\":true }\r\n\t", true);
        check(r#"{"cost":0}"#, true);
        for number in ["00", "01", "-1", "1.0", "1e3", "+1", "", "0x1", "\"1\"", "null", "1 1"] {
            check(&format!("{{\"cost\":{number}}}"), false);
        }
        check(r#"{"cost":1,"cost":1}"#, false);
        check(r#"{"identifiers":{"ip":"::1","ip":"::1"}}"#, false);
        check(r#"{"identifiers":["u"]}"#, false);
        check(r#"{"identifiers":null}"#, false);
        check(r#"{"rule_id":"a\nb"}"#, false);
        check("{\"rule_id\":\"a\nb\"}", false);
        check(r#"{"key_type":"banana"}"#, false);
        check(r#"{"banana":"a"}"#, false);
        check(r#"{"cost":1,}"#, false);
        check(r#"{"cost":1}}"#, false);
        check(r#"{"detail":truest}"#, false);
        check(r#"{"rule_id":"a"#, false);
        check("[]", false);
        check("", false);
        let batch = |body: &str, expected: Option<usize>| {
            assert_eq!(read_batch(body.as_bytes()).map(|checks| checks.len()), expected, "{body}");
        };
        batch(r#"{"checks":[{},{}]}"#, Some(2));
        batch(" {\"checks\" : [ {} ] } ", Some(1));
        batch(r#"{"checks":[]}"#, None);
        batch(r#"{"checks":[{},]}"#, None);
        batch(r#"{"checks":[{}],"checks":[{}]}"#, None);
        batch(r#"{"checks":[{}]"#, None);
        batch(r#"{"check":[{}]}"#, None);
    }
}
