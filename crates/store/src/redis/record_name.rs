//! Names of counters in Redis. All counters of a subject whose rules count by the same identifiers are entries of one
//! record, whose key is a keyed hash: without the fleet's secret, hashing all addresses does not tell whose it is.
//! Keys are short, since they take memory for every subject: 66 bits are enough that no two subjects of a fleet share
//! one.

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate_core::{Key, RuleTag};

use crate::remote::{CounterKey, CounterName};

/// How many characters of a digest name a subject.
const DIGEST_CHARS: usize = 11;

/// Names counters: `record:tag`. The record is a digest of the group, the subject and the rest; in a cluster after `{digest
/// of the subject}`, so that all counters of a subject are in one slot.
#[derive(Clone, Debug)]
pub(super) struct RecordNames {
    pub(super) key: Option<CounterKey>,
    pub(super) is_cluster: bool,
}

impl RecordNames {
    pub(super) fn counter(&self, key: &Key<'_>) -> CounterName {
        let mut name = String::with_capacity(2 * DIGEST_CHARS + 8);
        if self.is_cluster {
            name.push('{');
            self.push_digest(&mut name, &[key.subject]);
            name.push('}');
        }
        let group = key.group.to_le_bytes();
        let length = (key.subject.len() as u64).to_le_bytes();
        self.push_digest(&mut name, &[&group, &length, key.subject, key.rest]);
        name.push(':');
        URL_SAFE_NO_PAD.encode_string(RuleTag::of(key.rule).bytes(), &mut name);
        CounterName::read(&name)
    }

    fn push_digest(&self, name: &mut String, parts: &[&[u8]]) {
        let digest = |bytes: &[u8]| -> String {
            let mut text = URL_SAFE_NO_PAD.encode(bytes.get(..9).unwrap_or_default());
            text.truncate(DIGEST_CHARS);
            text
        };
        match &self.key {
            Some(key) => {
                let mut context = hmac::Context::with_key(key.hmac());
                parts.iter().for_each(|part| context.update(part));
                name.push_str(&digest(context.sign().as_ref()));
            }
            None => {
                let mut context = Context::new(&SHA256);
                parts.iter().for_each(|part| context.update(part));
                name.push_str(&digest(context.finish().as_ref()));
            }
        }
    }
}

/// The record of a counter, and its tag there.
pub(super) fn split(name: &CounterName) -> (&str, RuleTag) {
    let (record, tag) = name.as_str().rsplit_once(':').unwrap_or((name.as_str(), ""));
    let mut bytes = [0; 3];
    // A name that was made here has a tag.
    let _ = URL_SAFE_NO_PAD.decode_slice(tag, &mut bytes);
    (record, RuleTag::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    #[test]
    fn counters_of_different_groups_are_never_in_one_record() {
        let hasher = BuildHasherDefault::<DefaultHasher>::new();
        let key = Key::new(&hasher, "r", b"alice", b"");
        for is_cluster in [false, true] {
            let names = RecordNames { key: None, is_cluster };
            let record = |group| split(&names.counter(&key.in_group(group))).0.to_owned();
            assert_ne!(record(1), record(2));
        }
    }

    fn name(names: &RecordNames, rule: &str, subject: &str, rest: &str) -> String {
        let hasher = BuildHasherDefault::<DefaultHasher>::new();
        let key = Key::new(&hasher, rule, subject.as_bytes(), rest.as_bytes());
        names.counter(&key).as_str().to_owned()
    }

    #[test]
    fn counters_of_a_subject_are_in_one_record() {
        for is_cluster in [false, true] {
            let names = RecordNames { key: None, is_cluster };
            let record = |rule: &str, subject: &str, rest: &str| {
                let name = CounterName::read(&name(&names, rule, subject, rest));
                (split(&name).0.to_owned(), split(&name).1)
            };
            assert_eq!(record("a", "alice", "").0, record("b", "alice", "").0);
            assert_ne!(record("a", "alice", "").1, record("b", "alice", "").1);
            assert_eq!(record("a", "alice", "").1, RuleTag::of("a"));
            let others = [("bob", ""), ("alice", "x"), ("alicex", ""), ("a", "licex")];
            for (subject, rest) in others {
                assert_ne!(record("a", "alice", "").0, record("a", subject, rest).0);
            }
            assert_ne!(record("a", "ab", "c").0, record("a", "a", "bc").0);
        }
    }

    #[test]
    fn a_cluster_keeps_a_subject_in_one_slot() {
        let names = RecordNames { key: None, is_cluster: true };
        let tag = |rule: &str, subject: &str, rest: &str| {
            CounterName::read(&name(&names, rule, subject, rest)).tag().to_owned()
        };
        assert_eq!(tag("a", "alice", ""), tag("b", "alice", "x"));
        assert_ne!(tag("a", "alice", ""), tag("a", "bob", ""));
    }

    #[test]
    fn a_secret_hides_whose_a_record_is() {
        let with = |secret: Option<&str>| RecordNames {
            key: secret.map(|secret| CounterKey::new(secret.as_bytes())),
            is_cluster: false,
        };
        let names = [None, Some("one"), Some("two")].map(|it| name(&with(it), "r", "10.0.0.1", ""));
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
        assert_eq!(names[1], name(&with(Some("one")), "r", "10.0.0.1", ""));
        assert_eq!(names[1].len(), DIGEST_CHARS + 1 + 4);
    }
}
