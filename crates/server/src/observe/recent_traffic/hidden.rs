//! Replaces secrets in records by their digests, before anything is kept. A client sends its key again and again, so
//! that digests are remembered for a while.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::BuildHasher as _;

use aws_lc_rs::digest::{SHA256, digest};
use foldhash::quality::RandomState;

use super::record::{RecordFields, sized, tag};
use crate::observe::audit_log::is_secret_name;

/// How many digests are remembered.
const MAX_DIGESTS: usize = 4_096;
const DIGEST_BYTES: usize = 32;
/// What digests begin with as text.
const PREFIX: &str = "sha256:";

/// Digests of secrets, by two keyed hashes of them: the secrets themselves are not kept.
#[derive(Debug, Default)]
pub(super) struct Digests {
    known: HashMap<(u64, u64), [u8; DIGEST_BYTES], RandomState>,
    hashers: (RandomState, RandomState),
}

impl Digests {
    /// Copies the fields of a client, with digests in place of secrets.
    pub(super) fn hide(&mut self, client: &[u8], out: &mut Vec<u8>) {
        for field in RecordFields(client) {
            let is_secret = field.tag & tag::SECRET != 0
                || (!field.name.is_empty() && is_secret_name(field.name_text()));
            out.push(if is_secret { field.tag & !tag::SECRET | tag::HIDDEN } else { field.tag });
            if !field.name.is_empty() {
                sized(out, field.name);
            }
            if is_secret {
                sized(out, &self.of(field.value));
            } else {
                sized(out, field.value);
            }
        }
    }

    fn of(&mut self, secret: &[u8]) -> [u8; DIGEST_BYTES] {
        let key = (self.hashers.0.hash_one(secret), self.hashers.1.hash_one(secret));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let mut bytes = [0; DIGEST_BYTES];
        bytes.copy_from_slice(digest(&SHA256, secret).as_ref());
        if self.known.len() >= MAX_DIGESTS {
            self.known.clear();
        }
        self.known.insert(key, bytes);
        bytes
    }
}

/// The text of a digest, as policies write it, or the beginning of it as it is shown.
pub(super) fn digest_text(digest: &[u8], bytes: usize) -> String {
    let mut text = String::with_capacity(PREFIX.len() + 2 * bytes);
    text.push_str(PREFIX);
    for byte in digest.iter().take(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_kept_as_digests() {
        let mut client = Vec::new();
        for (tag, name, value) in [
            (tag::USER, "", "u"),
            (tag::API_KEY | tag::SECRET, "", "k"),
            (tag::HEADER, "x-region", "eu"),
            (tag::HEADER | tag::COUNTED | tag::SECRET, "x-device", "k"),
            (tag::CLAIM, "session_id", "k"),
        ] {
            client.push(tag);
            if !name.is_empty() {
                sized(&mut client, name.as_bytes());
            }
            sized(&mut client, value.as_bytes());
        }
        let (mut digests, mut hidden) = (Digests::default(), Vec::new());
        // A second time from memory.
        for _ in 0..2 {
            hidden.clear();
            digests.hide(&client, &mut hidden);
            let shown: Vec<String> = RecordFields(&hidden)
                .map(|it| match it.is_hidden() {
                    true => format!("{} {}", it.name_text(), digest_text(it.value, 6)),
                    false => format!("{} {}", it.name_text(), it.value_text()),
                })
                .collect();
            let k = "sha256:8254c329a928";
            let expected = [
                " u".to_owned(),
                format!(" {k}"),
                "x-region eu".to_owned(),
                format!("x-device {k}"),
                format!("session_id {k}"),
            ];
            assert_eq!(shown, expected);
            assert!(RecordFields(&hidden).all(|field| field.tag & tag::SECRET == 0));
        }
    }
}
