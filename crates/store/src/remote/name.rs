//! The name of a counter outside this process. Identifiers may be secrets and may contain anything, so only digests
//! of them leave: 128 bits, too many to find a collision with another client.

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate_core::Key;

const DIGEST_BYTES: usize = 16;

/// The name of a counter: `{digest of the subject}:rule`, and if the rule counts by more than the
/// subject, `:digest of the rest`. Braces, so that a Redis Cluster keeps all counters of a subject in
/// one slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CounterName(String);

impl CounterName {
    pub(crate) fn of(key: &Key<'_>) -> Self {
        let mut name = String::with_capacity(64);
        name.push('{');
        push_digest(&mut name, key.subject);
        name.push_str("}:");
        name.push_str(key.rule);
        if !key.rest.is_empty() {
            name.push(':');
            push_digest(&mut name, key.rest);
        }
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

fn push_digest(name: &mut String, bytes: &[u8]) {
    let mut digest = Context::new(&SHA256);
    digest.update(bytes);
    URL_SAFE_NO_PAD.encode_string(&digest.finish().as_ref()[..DIGEST_BYTES], name);
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    #[test]
    fn names_tell_counters_apart_and_keep_subjects_together() {
        let name = |rule: &str, subject: &str, rest: &str| {
            let hasher = BuildHasherDefault::<DefaultHasher>::new();
            CounterName::of(&Key::new(&hasher, rule, subject.as_bytes(), rest.as_bytes()))
        };
        // The first half of the SHA-256 of `abc`, as FIPS 180 prints it.
        let abc = "ungWv48Bz-pBQUDeXa4iIw";
        assert_eq!(name("r", "abc", "").as_str(), format!("{{{abc}}}:r"));
        assert_eq!(name("r", "abc", "abc").as_str(), format!("{{{abc}}}:r:{abc}"));
        assert_eq!(name("r", "abc", "x").tag(), abc);
        let all = [name("r", "a", ""), name("r", "b", ""), name("s", "a", ""), name("r", "a", "b")];
        for (i, one) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| other != one), "{one:?}");
        }
        assert_eq!(all[0].tag(), all[3].tag());
        assert_ne!(all[0].tag(), all[1].tag());
        assert!(!name("r", "secret}", "{}").as_str().contains("secret"));
        let call = [7; DIGEST_BYTES];
        let beside = CounterName::of_record(call, Some(&all[0]));
        assert_eq!(beside.tag(), all[0].tag());
        assert_ne!(beside, CounterName::of_record(call, None));
        assert_ne!(beside, CounterName::of_record([8; DIGEST_BYTES], Some(&all[0])));
    }
}
