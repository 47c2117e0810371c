//! TLS from files, which may be replaced while the server runs.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::time::sleep;
use tracing::{info, warn};

use super::shutdown::Shutdown;
use crate::settings::TlsFiles;

/// The certificates and keys in force.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    loaded: FileStates,
    current: ArcSwap<ServerConfig>,
}

/// Why TLS cannot be set up: which file, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

/// The state of each file, to notice changes; `None` if it cannot be read.
type FileStates = [Option<FileState>; 3];

/// Identifies a version of a file. Links are followed, so a link with a new target is a change. Times
/// alone do not show that: files that were written together have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    number: u64,
    length: u64,
    changed: SystemTime,
}

impl Tls {
    /// Reads the files. Clients may present a certificate if there is an authority to verify it; the
    /// service decides for each request whether they must.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        // First the states: what changes while files are read is then seen as a change.
        let loaded = states(&files);
        let config = read(&files)?;
        Ok(Self { files, loaded, current: ArcSwap::from_pointee(config) })
    }

    pub(super) fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Reads the files again whenever they have changed, until the server ends. Files that cannot
    /// be used leave the old ones in force.
    pub async fn follow_files(self: Arc<Self>, period: Duration, shutdown: Shutdown) {
        let mut known = self.loaded;
        loop {
            tokio::select! {
                () = shutdown.requested() => return,
                () = sleep(period) => {}
            }
            let tls = Arc::clone(&self);
            // Files can be on a disk that is slow or gone; connections must not wait for it.
            let refreshed = tokio::task::spawn_blocking(move || tls.refresh(known)).await;
            known = refreshed.unwrap_or(known);
        }
    }

    fn refresh(&self, known: FileStates) -> FileStates {
        let found = states(&self.files);
        if found == known {
            return known;
        }
        let certificate = self.files.certificate.display();
        match read(&self.files) {
            Ok(config) => {
                self.current.store(Arc::new(config));
                info!(%certificate, "TLS certificate replaced");
            }
            Err(error) => warn!(%error, "TLS files changed, the old ones stay in force"),
        }
        found
    }
}

fn states(files: &TlsFiles) -> FileStates {
    let state = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some(FileState {
            number: metadata.ino(),
            length: metadata.len(),
            changed: metadata.modified().ok()?,
        })
    };
    [state(&files.certificate), state(&files.key), files.client_ca.as_deref().and_then(state)]
}

fn read(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(default_provider());
    let chain = certificates(&files.certificate)?;
    let key_text = text(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&key_text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError(format!(
            "{} holds no private key; expected PEM text with BEGIN PRIVATE KEY",
            files.key.display()
        )),
        error => unusable(&files.key, &error),
    })?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(format!("TLS cannot be set up: {error}")))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots(path)?, provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error: VerifierBuilderError| unusable(path, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError(format!(
            "the key in {} does not belong to the certificate in {}",
            files.key.display(),
            files.certificate.display()
        )),
        error => unusable(&files.certificate, &error),
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn roots(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(path, &error))?;
    }
    Ok(Arc::new(roots))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = text(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(TlsError(format!(
            "{} holds no certificate; expected PEM text with BEGIN CERTIFICATE",
            path.display()
        ))),
        Err(error) => Err(unusable(path, &error)),
    }
}

fn text(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError(format!("cannot read {}: {error}", path.display())))
}

fn unusable(path: &Path, error: &dyn fmt::Display) -> TlsError {
    TlsError(format!("{} cannot be used: {error}", path.display()))
}
