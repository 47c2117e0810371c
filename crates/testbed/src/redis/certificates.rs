//! A certificate for a Redis of this machine, and the authority that signed it.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// The files, all of them PEM.
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// Makes them up and writes them into a folder.
pub(super) fn write(folder: &Path) -> Certificates {
    let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
    authority.distinguished_name.push(DnType::CommonName, "Tollgate testbed");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().expect("a key");
    let authority_pem = authority.self_signed(&authority_key).expect("a certificate").pem();
    let issuer = Issuer::new(authority, authority_key);

    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let server = CertificateParams::new(names).expect("parameters");
    let key = KeyPair::generate().expect("a key");
    let certificate = server.signed_by(&key, &issuer).expect("a certificate");

    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file for a certificate");
        path
    };
    Certificates {
        authority: write("authority.pem", authority_pem),
        certificate: write("server.pem", certificate.pem()),
        key: write("server.key", key.serialize_pem()),
    }
}
