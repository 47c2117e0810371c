//! Which certificates of servers are believed: those that the system trusts, or those of a file.

use std::path::Path;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

use crate::failure::Failure;

/// The TLS settings of a client. Nothing is read where no TLS is spoken.
pub(super) fn settings(is_https: bool, ca: Option<&Path>) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::usage(format!("cannot speak TLS: {error}")))?;
    let builder = match ca {
        _ if !is_https => builder.with_root_certificates(RootCertStore::empty()),
        Some(file) => builder.with_root_certificates(read(file)?),
        None => builder.with_native_roots().map_err(|error| {
            let advice = "name the certificate of the server's authority with --ca";
            Failure::usage(format!("the system trusts no certificates: {error}; {advice}"))
        })?,
    };
    Ok(builder.with_no_client_auth())
}

fn read(file: &Path) -> Result<RootCertStore, Failure> {
    let unusable = |why: &str| Failure::usage(format!("cannot use --ca {}: {why}", file.display()));
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(&error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable("it holds no certificate in PEM format"));
    }
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|error| unusable(&error.to_string()))?;
    }
    Ok(roots)
}
