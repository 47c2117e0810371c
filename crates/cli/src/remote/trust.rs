//! Which certificates of servers are believed: those that the system trusts, or those of a file.

use std::path::Path;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{CertificateError, ClientConfig, RootCertStore, crypto::aws_lc_rs};

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

/// Why a server is not believed, and what can be done about it.
pub(super) fn distrust(error: &rustls::Error, has_ca: bool) -> String {
    let rustls::Error::InvalidCertificate(flaw) = error else {
        return format!("{error}. Does it speak TLS? (--server)");
    };
    match flaw {
        CertificateError::UnknownIssuer | CertificateError::BadSignature if has_ca => {
            "the authority of --ca did not sign its certificate".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => "nobody that the system trusts signed its certificate. \
                                            Trust its authority with --ca, if that is what you want."
            .to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name. Ask for one of its names (--server).".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet".to_owned()
        }
        // What is wrong has no name of its own in this library.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority, which is no server's. Give the server one with \
             basicConstraints CA:FALSE."
                .to_owned()
        }
        other => format!("its certificate cannot be used: {other}"),
    }
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
