//! Warns at start about settings that are valid, but expose more or apply less than an operator may expect.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::settings::Settings;

/// The permission bit of files that every user of the machine may read.
const READABLE_BY_ALL: u32 = 0o004;

/// Warnings about settings that expose secrets, and about a catalog that is not used.
#[must_use]
pub fn warnings(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    let public_admin = settings.admin.filter(|admin| !admin.ip().to_canonical().is_loopback());
    if let (Some(admin), None) = (public_admin, &settings.tls) {
        warnings.push(format!(
            "admin: other machines can reach {admin}, and it has no TLS, so admin tokens cross the network \
             unencrypted; set tls.certificate and tls.key, or listen on 127.0.0.1"
        ));
    }
    if let Some(files) = &settings.tls {
        let mode = fs::metadata(&files.key).map(|metadata| metadata.mode());
        if mode.is_ok_and(|mode| mode & READABLE_BY_ALL != 0) {
            let key = files.key.display();
            warnings
                .push(format!("tls.key: every user can read {key}; chmod 600 {key} restricts it"));
        }
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
