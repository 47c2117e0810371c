//! The name of a counter outside this process. Identifiers may be secrets and may contain anything, so only digests
//! of them leave: 128 bits, too many to find a collision with another client.

#[cfg(feature = "postgres")]
use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
#[cfg(feature = "postgres")]
use tollgate_core::Key;

const DIGEST_BYTES: usize = 16;

/// The name of a counter. In PostgreSQL it is `{digest}:rule`, with the digest of the group and the identifiers: counters of
/// different groups are never the same, whatever the ids of their rules. In Redis it is a record and a tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CounterName(String);

impl CounterName {
    #[cfg(feature = "postgres")]
    pub(crate) fn of(key: &Key<'_>) -> Self {
        let mut name = String::with_capacity(64);
        let mut digest = Context::new(&SHA256);
        digest.update(&key.group.to_le_bytes());
        digest.update(&(key.subject.len() as u64).to_le_bytes());
        digest.update(key.subject);
        digest.update(key.rest);
        name.push('{');
        URL_SAFE_NO_PAD.encode_string(&digest.finish().as_ref()[..DIGEST_BYTES], &mut name);
        name.push_str("}:");
        name.push_str(key.rule);
        Self(name)
    }

    /// The name of the record of a call, which no counter has: `once:digest`, or in the slot of a counter
    /// `once:{digest of its subject}:digest`.
    pub(crate) fn of_record(call: [u8; DIGEST_BYTES], beside: Option<&Self>) -> Self {
        Self::of_call("once:", call, beside)
    }

    /// The name of the mark of a refund, which no counter has: `refunded:mark`, or in the slot of a counter
    /// `refunded:{digest of its subject}:mark`.
    pub(crate) fn of_mark(mark: [u8; DIGEST_BYTES], beside: Option<&Self>) -> Self {
        Self::of_call("refunded:", mark, beside)
    }

    fn of_call(prefix: &str, call: [u8; DIGEST_BYTES], beside: Option<&Self>) -> Self {
        let mut name = prefix.to_owned();
        if let Some(counter) = beside {
            name.push('{');
            name.push_str(counter.tag());
            name.push_str("}:");
        }
        URL_SAFE_NO_PAD.encode_string(call, &mut name);
        Self(name)
    }

    /// Reads a name.
    pub(crate) fn read(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The text between the braces.
    pub(crate) fn tag(&self) -> &str {
        self.0.split(['{', '}']).nth(1).unwrap_or_default()
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    fn key<'a>(rule: &'a str, subject: &'a str, rest: &'a str) -> Key<'a> {
        let hasher = BuildHasherDefault::<DefaultHasher>::new();
        Key::new(&hasher, rule, subject.as_bytes(), rest.as_bytes())
    }

    #[test]
    fn names_tell_counters_apart() {
        let name = |rule, subject, rest| CounterName::of(&key(rule, subject, rest));
        // The first half of the SHA-256 of sixteen bytes for group and length, and of `abc`.
        assert_eq!(name("r", "abc", "").as_str(), "{TkA7o1EcDnMG4pj9NJde1g}:r");
        let all = [
            name("r", "a", ""),
            name("r", "b", ""),
            name("s", "a", ""),
            name("r", "a", "b"),
            name("r", "ab", ""),
            CounterName::of(&key("r", "a", "").in_group(1)),
            CounterName::of(&key("r", "a", "").in_group(2)),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| other != one), "{one:?}");
        }
        assert!(!name("r", "secret}", "{}").as_str().contains("secret"));
        let call = [7; DIGEST_BYTES];
        let beside = CounterName::of_record(call, Some(&all[0]));
        assert_eq!(beside.tag(), all[0].tag());
        assert_ne!(beside, CounterName::of_record(call, None));
        assert_ne!(beside, CounterName::of_record([8; DIGEST_BYTES], Some(&all[0])));
    }
}
