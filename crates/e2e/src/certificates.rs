//! Certificates made up for a test, and the files they are in.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority that signs whatever a test needs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// An authority of that name.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Writes the certificate of the authority to a file and says where.
    pub fn write(&self, folder: &Path, name: &str) -> String {
        write(folder, name, &self.pem)
    }

    /// Writes a certificate for a name and its key to files, and says where.
    pub fn sign(&self, folder: &Path, name: &str) -> (String, String) {
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (
            write(folder, &format!("{name}.pem"), &certificate.pem()),
            write(folder, &format!("{name}.key"), &key.serialize_pem()),
        )
    }
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("written");
    path.to_str().expect("a readable path").to_owned()
}
