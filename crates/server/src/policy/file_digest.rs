//! Digests by which operators tell apart what is in the files of nodes, since each node counts its own revisions.

use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};

/// How many digits of a digest are shown: enough to tell files apart.
const SHOWN_DIGITS: usize = 16;

/// The first digits of what `sha256sum FILE` prints.
pub(crate) fn digest_of_file(text: &str) -> String {
    shown(&hex(text.as_bytes()))
}

/// The first digits of what `sha256sum FILE... | sha256sum` prints in a directory, for its files in this order.
pub(crate) fn digest_of_files(directory: &Path, files: &[(String, String)]) -> String {
    let line = |(path, text): &(String, String)| {
        let name = Path::new(path).strip_prefix(directory).unwrap_or(Path::new(path));
        format!("{}  {}\n", hex(text.as_bytes()), name.display())
    };
    let lines: String = files.iter().map(line).collect();
    shown(&hex(lines.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shown(hex: &str) -> String {
    hex.chars().take(SHOWN_DIGITS).collect()
}
