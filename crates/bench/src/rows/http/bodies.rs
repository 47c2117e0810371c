//! The requests: JSON bodies in files, one to a line, so that every client sends the same ones.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use serde_json::json;

use crate::Fallible;
use crate::keys::{Draw, KeyText};
use crate::peers::{LIMIT, WINDOW_SECONDS};
use crate::rows::load::BATCH;
use crate::rows::server::RULE;

/// Single checks, one for each key.
pub(super) fn checks(keys: u64) -> impl Iterator<Item = String> {
    each_key(keys, |key| json!({"identifiers": {"user_id": key}, "detail": false}).to_string())
}

/// Bodies for throttlecrab, whose requests carry their limits.
pub(super) fn throttles(keys: u64) -> impl Iterator<Item = String> {
    each_key(keys, |key| {
        let (limit, period) = (LIMIT, WINDOW_SECONDS);
        json!({"key": key, "max_burst": limit, "count_per_period": limit, "period": period})
            .to_string()
    })
}

/// Batches of checks by rule, of keys drawn at random: as many checks as there are keys.
pub(super) fn batches(keys: u64) -> impl Iterator<Item = String> {
    let (mut draw, mut text) = (Draw::new(1, keys), KeyText::new());
    let mut check = move || {
        let key = text.of(draw.next());
        json!({"rule_id": RULE, "key_type": "user", "key_value": key})
    };
    (0..keys.div_ceil(BATCH)).map(move |_| {
        let checks: Vec<_> = (0..BATCH).map(|_| check()).collect();
        json!({"checks": checks}).to_string()
    })
}

fn each_key(keys: u64, body: impl Fn(&str) -> String) -> impl Iterator<Item = String> {
    let mut text = KeyText::new();
    (0..keys).map(move |key| body(text.of(key)))
}

/// Writes a file of bodies.
pub(super) fn write(path: &Path, bodies: impl Iterator<Item = String>) -> Fallible<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for body in bodies {
        writeln!(file, "{body}")?;
    }
    Ok(file.flush()?)
}
