//! Identifies clients by their certificates.

use std::fmt;

use aws_lc_rs::digest;
use rustls::pki_types::CertificateDer;

const BYTES: usize = 16;

/// Identifies a client certificate: the first half of its SHA-256 digest, which is long enough to rule
/// out a second certificate with the same digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CertificateDigest([u8; BYTES]);

impl CertificateDigest {
    /// The digest of a certificate.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(&digest::digest(&digest::SHA256, certificate).as_ref()[..BYTES]);
        Self(bytes)
    }
}

/// As tools print digests, without colons and only the first half.
impl fmt::Debug for CertificateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_printed_as_tools_print_it() {
        // The first half of the SHA-256 of `abc`, as FIPS 180 prints it.
        let digest = CertificateDigest::of(&CertificateDer::from_slice(b"abc"));
        assert_eq!(format!("{digest:?}"), "ba7816bf8f01cfea414140de5dae2223");
    }
}
