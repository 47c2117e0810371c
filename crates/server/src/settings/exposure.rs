//! Warns at start about settings that are valid, but expose more or apply less than an operator may expect.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde_json::Value as Json;

use crate::settings::{Effective, Settings};

/// The permission bit of files that every user of the machine may read.
const READABLE_BY_ALL: u32 = 0o004;

/// The settings that name files with secrets.
const SECRET_FILES: [&str; 6] = [
    "tls.key",
    "check_token_file",
    "admin_token_file",
    "fleet.secret_file",
    "fleet.previous_secret_file",
    "identity.jwt.secret_file",
];

/// Warnings about settings that expose secrets, about a store without the fleet's secret, and about a catalog that is not
/// used.
#[must_use]
pub fn warnings(effective: &Effective) -> Vec<String> {
    let Effective { settings, entries } = effective;
    let mut warnings = Vec::new();
    let public_admin = settings.admin.filter(|admin| !admin.ip().to_canonical().is_loopback());
    if let (Some(admin), None) = (public_admin, &settings.tls) {
        warnings.push(format!(
            "admin: other machines can reach {admin}, and it has no TLS, so admin tokens cross the network \
             unencrypted; set tls.certificate and tls.key, or listen on 127.0.0.1"
        ));
    }
    for entry in entries.iter().filter(|entry| SECRET_FILES.contains(&entry.name)) {
        let Json::String(file) = &entry.value else { continue };
        let mode = fs::metadata(file).map(|metadata| metadata.mode());
        if mode.is_ok_and(|mode| mode & READABLE_BY_ALL != 0) {
            let name = entry.name;
            warnings
                .push(format!("{name}: every user can read {file}; chmod 600 {file} restricts it"));
        }
    }
    if lacks_secret(settings) {
        warnings.push(
            "store: the fleet has no secret, so only the node that made a decision can refund and explain it, and Redis \
             does not hide whose counters are there; set TOLLGATE_FLEET_SECRET to the same secret on all nodes \
             (openssl rand -hex 32 makes one)"
                .to_owned(),
        );
    }
    let unused = settings.catalog.file().filter(|file| file.exists());
    if let Some(file) = unused.filter(|_| settings.rules.is_none() && !settings.uses_catalog()) {
        let file = file.display();
        warnings.push(format!(
            "catalog: {file} is here but is not used, because envoy_config is set and catalog is not; \
             name it with --catalog sqlite:{file} to use its rules too"
        ));
    }
    warnings
}

/// Whether nodes share a store without a secret: a catalog would have made one.
fn lacks_secret(settings: &Settings) -> bool {
    settings.store.is_shared() && !settings.uses_catalog() && settings.fleet_secret.is_none()
}
