//! Seals a policy with the fleet's secret, and opens it: a copy that was forged, changed, cut or moved to another
//! revision does not open.
//!
//! The header is text: format, epoch, number and stamp of the version, when the policy was read, number of chunks, salt,
//! and a tag over all of these. Each chunk is sealed with AES-256-GCM by a key that only this copy has, with its place
//! as nonce and the header as associated data.

use std::fmt::Write as _;
use std::io::{self, BufReader, Read, Write};

use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use aws_lc_rs::rand;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use tollgate::store::SealedPolicy;
use tollgate::{Revision, Timestamp};
use tollgate_catalog::{CatalogError, PolicyExport, Version};

use crate::app::fleet_secret::FleetSecret;

/// The format of header, chunks and text.
const FORMAT: &str = "tollgate-policy-1";
const SALT_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
/// The nonce of the tag over the header; chunks count from one.
const HEADER_PLACE: u32 = 0;
/// The most bytes that a copy may have after it is decompressed.
const MAX_TEXT_BYTES: u64 = 512 * 1024 * 1024;

/// What a genuine header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PolicyHeader {
    pub(crate) version: Version,
    /// When the catalog last responded to the node that sealed it; `None` if it never did.
    pub(crate) heard_at: Option<Timestamp>,
    chunks: u32,
    /// Whether it would be sealed with the same secret now.
    pub(crate) is_of_secret_in_use: bool,
}

/// Why a copy is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The header is not one of this format.
    NotSealed,
    /// The tag is wrong: another secret sealed it, or it was changed.
    NotGenuine,
    /// It says another revision than its header.
    OtherRevision,
    /// A chunk is missing, cut, or from another copy.
    BadChunk(usize),
    /// What was sealed cannot be used.
    Unusable(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSealed => f.write_str("it is not sealed in a form that this version knows"),
            Self::NotGenuine => f.write_str(
                "it was not sealed with this fleet's secret, or was changed: all nodes need the same \
                 TOLLGATE_FLEET_SECRET or fleet.secret_file",
            ),
            Self::OtherRevision => f.write_str("its revision is not the one that was sealed"),
            Self::BadChunk(place) => write!(f, "chunk {place} is missing, cut or changed"),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}

/// Text that is compressed while it is written.
pub(crate) struct PolicyText(DeflateEncoder<Vec<u8>>);

impl PolicyText {
    pub(crate) fn new() -> Self {
        Self(DeflateEncoder::new(Vec::new(), Compression::fast()))
    }

    /// Seals what was written.
    pub(crate) fn seal(
        self,
        secret: &FleetSecret,
        version: Version,
        heard_at: Option<Timestamp>,
    ) -> io::Result<SealedPolicy> {
        let compressed = self.0.finish()?;
        let mut salt = [0; SALT_BYTES];
        let failed = || io::Error::other("the system gives no random numbers");
        rand::fill(&mut salt).map_err(|_| failed())?;
        let key = secret.policy_copy_key(&salt).ok_or_else(failed)?;
        let parts = compressed.chunks(SealedPolicy::CHUNK_BYTES - TAG_BYTES);
        let Revision { epoch, number } = version.revision;
        let (salt, count) = (hex(&salt), parts.len());
        let heard_at = heard_at.map_or(0, Timestamp::as_micros);
        let claims =
            format!("{FORMAT} {epoch} {number} {} {heard_at} {count} {salt}", version.stamp);
        let mut chunks = Vec::with_capacity(count);
        for (part, place) in parts.zip(HEADER_PLACE + 1..) {
            chunks.push(seal(&key, place, &claims, part).ok_or_else(failed)?);
        }
        let tag = seal(&key, HEADER_PLACE, &claims, &[]).ok_or_else(failed)?;
        let header = format!("{claims} {}", hex(&tag)).into_bytes();
        Ok(SealedPolicy { epoch, number, id: salt, header, chunks })
    }
}

impl Write for PolicyText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl PolicyHeader {
    /// Reads a header and checks its tag.
    pub(crate) fn open(header: &[u8], secret: &FleetSecret) -> Result<Self, Refusal> {
        read_header(header, secret).map(|(header, ..)| header)
    }
}

/// Opens a copy.
pub(crate) fn open(
    policy: &SealedPolicy,
    secret: &FleetSecret,
) -> Result<(PolicyHeader, PolicyExport), Refusal> {
    let (header, claims, key) = read_header(&policy.header, secret)?;
    let revision = Revision { epoch: policy.epoch, number: policy.number };
    if header.version.revision != revision {
        return Err(Refusal::OtherRevision);
    }
    if u32::try_from(policy.chunks.len()) != Ok(header.chunks) {
        return Err(Refusal::BadChunk(policy.chunks.len() + 1));
    }
    let mut compressed = Vec::with_capacity(policy.bytes());
    for (sealed, place) in policy.chunks.iter().zip(HEADER_PLACE + 1..) {
        let part = unseal(&key, place, &claims, sealed);
        let part = part.ok_or(Refusal::BadChunk(usize::try_from(place).unwrap_or(usize::MAX)))?;
        compressed.extend_from_slice(&part);
    }
    let text = DeflateDecoder::new(compressed.as_slice()).take(MAX_TEXT_BYTES);
    let unusable = |error: CatalogError| Refusal::Unusable(error.to_string());
    let export = PolicyExport::read(BufReader::new(text)).map_err(unusable)?;
    if export.version != header.version {
        return Err(Refusal::OtherRevision);
    }
    Ok((header, export))
}

/// What a header claims, the text that is authenticated, and the key of the copy.
fn read_header(
    header: &[u8],
    secret: &FleetSecret,
) -> Result<(PolicyHeader, String, LessSafeKey), Refusal> {
    let text = std::str::from_utf8(header).map_err(|_| Refusal::NotSealed)?;
    let (claims, tag) = text.rsplit_once(' ').ok_or(Refusal::NotSealed)?;
    let words: Vec<&str> = claims.split(' ').collect();
    let [FORMAT, epoch, number, stamp, heard_at, chunks, salt] = words[..] else {
        return Err(Refusal::NotSealed);
    };
    let count = |text: &str| text.parse::<u64>().map_err(|_| Refusal::NotSealed);
    let salt = bytes_of(salt).ok_or(Refusal::NotSealed)?;
    let tag = bytes_of(tag).ok_or(Refusal::NotSealed)?;
    let mut keys = secret.policy_copy_keys(&salt).enumerate();
    let genuine = keys.find(|(_, key)| unseal(key, HEADER_PLACE, claims, &tag).is_some());
    let (place, key) = genuine.ok_or(Refusal::NotGenuine)?;
    let revision = Revision { epoch: count(epoch)?, number: count(number)? };
    let heard_at = count(heard_at)?;
    let header = PolicyHeader {
        version: Version { revision, stamp: count(stamp)? },
        heard_at: (heard_at > 0).then(|| Timestamp::from_micros(heard_at)),
        chunks: chunks.parse().map_err(|_| Refusal::NotSealed)?,
        is_of_secret_in_use: place == 0,
    };
    Ok((header, claims.to_owned(), key))
}

fn nonce(place: u32) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..4].copy_from_slice(&place.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn seal(key: &LessSafeKey, place: u32, claims: &str, part: &[u8]) -> Option<Vec<u8>> {
    let mut sealed = Vec::with_capacity(part.len() + TAG_BYTES);
    sealed.extend_from_slice(part);
    let claims = Aad::from(claims.as_bytes());
    key.seal_in_place_append_tag(nonce(place), claims, &mut sealed).ok()?;
    Some(sealed)
}

fn unseal(key: &LessSafeKey, place: u32, claims: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    let mut part = sealed.to_vec();
    let length =
        key.open_in_place(nonce(place), Aad::from(claims.as_bytes()), &mut part).ok()?.len();
    part.truncate(length);
    Some(part)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) || !hex.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = (0..hex.len()).step_by(2).map(|at| hex.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: Version = Version { revision: Revision { epoch: 7, number: 27 }, stamp: 5 };

    fn ours() -> FleetSecret {
        FleetSecret::new("ours-0123456789abcdef0123456789abcdef", None)
    }

    /// Several chunks: random names do not compress well.
    fn sealed() -> SealedPolicy {
        let mut text = PolicyText::new();
        writeln!(text, r#"{{"epoch":7,"number":27,"stamp":5}}"#).expect("written");
        let mut noise = vec![0; 400 * 1024];
        rand::fill(&mut noise).expect("random numbers");
        for user in noise.chunks(100).map(hex) {
            let body = format!(r#"{{\"identifier_type\":\"user_id\",\"identifier\":\"{user}\"}}"#);
            writeln!(text, r#"{{"kind":"blacklist","name":"","body":"{body}","version":1}}"#)
                .expect("written");
        }
        let heard_at = Some(Timestamp::from_micros(11));
        text.seal(&ours(), VERSION, heard_at).expect("sealed")
    }

    #[test]
    fn a_policy_is_opened_as_it_was_sealed() {
        let policy = sealed();
        assert!(policy.chunks.len() > 1, "{}", policy.chunks.len());
        let (header, export) = open(&policy, &ours()).expect("it opens");
        assert_eq!((header.version, header.heard_at), (VERSION, Some(Timestamp::from_micros(11))));
        assert_eq!((export.version, export.len()), (VERSION, 4_096));
        assert_eq!(PolicyHeader::open(&policy.header, &ours()), Ok(header));
        assert!(!String::from_utf8_lossy(&policy.chunks.concat()).contains("user_id"));
    }

    #[test]
    fn what_was_changed_does_not_open() {
        let check = |change: &dyn Fn(&mut SealedPolicy), expected: Refusal| {
            let mut policy = sealed();
            change(&mut policy);
            assert_eq!(open(&policy, &ours()).expect_err("refused"), expected);
        };
        let replaced = |policy: &mut SealedPolicy, from: &str, to: &str| {
            let header = String::from_utf8(policy.header.clone()).expect("text");
            policy.header = header.replacen(from, to, 1).into_bytes();
        };
        check(&|it| it.header = b"x".to_vec(), Refusal::NotSealed);
        check(&|it| it.header.clear(), Refusal::NotSealed);
        check(&|it| replaced(it, "policy-1", "policy-2"), Refusal::NotSealed);
        check(&|it| replaced(it, " 7 27 ", " 7 28 "), Refusal::NotGenuine);
        check(&|it| replaced(it, " 7 27 ", " 8 27 "), Refusal::NotGenuine);
        check(&|it| replaced(it, " 11 ", " 12 "), Refusal::NotGenuine);
        check(&|it| it.number += 1, Refusal::OtherRevision);
        check(&|it| it.chunks[0][0] ^= 1, Refusal::BadChunk(1));
        check(&|it| it.chunks.swap(0, 1), Refusal::BadChunk(1));
        check(&|it| _ = it.chunks[1].pop(), Refusal::BadChunk(2));
        check(&|it| it.chunks[1].clear(), Refusal::BadChunk(2));
        let count = sealed().chunks.len();
        check(&|it| drop(it.chunks.pop()), Refusal::BadChunk(count));
        check(&|it| it.chunks = sealed().chunks, Refusal::BadChunk(1));
    }

    #[test]
    fn a_copy_is_opened_with_the_previous_secret_and_is_to_be_replaced() {
        let new = "new-0123456789abcdef0123456789abcdef";
        let both = FleetSecret::new(new, Some("ours-0123456789abcdef0123456789abcdef"));
        let policy = sealed();
        let is_in_use = || open(&policy, &both).map(|(header, _)| header.is_of_secret_in_use);
        assert_eq!(is_in_use().ok(), Some(false));
        both.use_previous(true);
        assert_eq!(is_in_use().ok(), Some(true));
    }

    #[test]
    fn another_secret_opens_nothing() {
        let theirs = FleetSecret::new("theirs-0123456789abcdef0123456789abcd", None);
        let policy = sealed();
        assert_eq!(open(&policy, &theirs).expect_err("refused"), Refusal::NotGenuine);
        assert_eq!(PolicyHeader::open(&policy.header, &theirs), Err(Refusal::NotGenuine));
    }
}
