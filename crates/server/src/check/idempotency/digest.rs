//! Digests that identify a call, the same in all processes.

use std::io;

use aws_lc_rs::digest::{Context, SHA256};
use serde::Serialize;

use crate::admin::auth::Principal;

const BYTES: usize = 16;

/// The first half of a SHA-256: 128 bits, enough to rule out collisions.
pub(crate) type CallDigest = [u8; BYTES];

/// The digest of a protocol, a caller and its key.
pub(super) fn digest_of_call(protocol: &str, caller: &Principal, key: &str) -> CallDigest {
    let caller = match caller {
        Principal::Certified(certificate) => format!("certificate {certificate:?}"),
        Principal::Token(token) => format!("token {}", token.token_id),
        Principal::Anonymous | Principal::Caller | Principal::Admin => caller.name().to_owned(),
    };
    let mut context = Context::new(&SHA256);
    // No caller is called like a protocol, and no name contains a line feed, but a key may contain anything.
    if !protocol.is_empty() {
        context.update(protocol.as_bytes());
        context.update(b"\n");
    }
    context.update(caller.as_bytes());
    context.update(b"\n");
    context.update(key.as_bytes());
    first_half(context)
}

/// The digest of a body. Bodies with the same content have the same digest, however they are formatted.
pub(super) fn digest_of_body(body: &impl Serialize) -> CallDigest {
    let mut writer = DigestWriter(Context::new(&SHA256));
    // Bodies always serialise, and writing to a digest cannot fail.
    let _ = serde_json::to_writer(&mut writer, body);
    first_half(writer.0)
}

fn first_half(context: Context) -> CallDigest {
    let mut half = [0; BYTES];
    half.copy_from_slice(&context.finish().as_ref()[..BYTES]);
    half
}

struct DigestWriter(Context);

impl io::Write for DigestWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::http::wire::check::CheckBody;
    use crate::edge::http::wire::decode::decode;
    use crate::edge::listen::CertificateDigest;

    #[test]
    fn digests_differ_by_caller_and_key() {
        let certified =
            |der: &'static [u8]| Principal::Certified(CertificateDigest::of(&der.into()));
        let callers = [
            Principal::Anonymous,
            Principal::Caller,
            Principal::Admin,
            certified(b"a"),
            certified(b"b"),
        ];
        let mut seen = std::collections::HashSet::new();
        for caller in callers {
            for (protocol, key) in
                [("", "k"), ("", "K"), ("", "k k"), ("", "grpc:k"), ("grpc", "k")]
            {
                let digest = digest_of_call(protocol, &caller, key);
                assert_eq!(digest_of_call(protocol, &caller, key), digest);
                assert!(seen.insert(digest), "{protocol} {caller:?} {key}");
            }
        }
    }

    /// Other processes and other versions have to compute the same digests.
    #[test]
    fn digests_do_not_change() {
        let check = |body: &str, as_json: &str| {
            let read: CheckBody<'_> = decode(body.as_bytes()).expect("a check");
            assert_eq!(serde_json::to_string(&read).ok().as_deref(), Some(as_json), "{body}");
        };
        check("{}", "{}");
        check(
            r#"{"cost": 2, "identifiers": {"tenant": "t", "user_id": "\u0061"}}"#,
            r#"{"identifiers":{"user_id":"a","tenant":"t"},"cost":2}"#,
        );
        check(
            r#"{"key_type":"user_id","key_value":"v","rule_id":"r"}"#,
            r#"{"rule_id":"r","key_type":"user","key_value":"v"}"#,
        );
        check(
            r#"{"attributes":{"b":"2","a":"1"},"detail":false}"#,
            r#"{"attributes":{"a":"1","b":"2"},"detail":false}"#,
        );
        // Half of the SHA-256 of `{}`.
        let digest = digest_of_body(&CheckBody::default());
        assert_eq!(
            format!("{:032x}", u128::from_be_bytes(digest)),
            "44136fa355b3678a1146ad16f7e8649e"
        );
    }
}
