//! Settings of the logs in the catalog: what is kept of decisions and changes, and for how long.

use super::Settings;
use super::layers::Layers;
use super::otlp::Ratio;
use super::value::{ByteSize, Choice, Setting as _};

/// What is kept of decisions and changes, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Audit {
    /// Whether decisions are kept in the catalog.
    pub decisions: bool,
    /// The share of allowed requests that is kept, from 0 to 1. All other requests are kept.
    pub sample_allowed: f64,
    /// The most decisions that a node writes in a second.
    pub rows_per_second: u64,
    /// How many days decisions and changes are kept.
    pub keep_days: u64,
    /// The most space that the log of decisions takes.
    pub max_bytes: ByteSize,
}

/// A smaller log could not hold the decisions that are written together.
const MIN_BYTES: ByteSize = ByteSize::mebibytes(4);

impl Default for Audit {
    fn default() -> Self {
        Self {
            decisions: true,
            sample_allowed: 0.001,
            rows_per_second: 1_000,
            keep_days: 90,
            max_bytes: ByteSize::mebibytes(1_024),
        }
    }
}

pub(super) fn read(layers: &mut Layers<'_>, settings: &mut Settings) {
    let audit = &mut settings.audit;
    let mut decisions = None;
    layers.read("audit.decisions", &mut decisions);
    let has_catalog = settings.rules.is_none() && settings.has_catalog;
    if decisions == Some(Switch::On) && !has_catalog {
        let message = "decisions are kept in a catalog, and there is none; name one in catalog, and no rules file";
        layers.refuse("audit.decisions", message);
    }
    audit.decisions = decisions != Some(Switch::Off) && has_catalog;
    let shown = if audit.decisions { Switch::On } else { Switch::Off };
    layers.resolved("audit.decisions", shown.show());
    let mut sample = Ratio(audit.sample_allowed);
    layers.read("audit.sample_allowed", &mut sample);
    audit.sample_allowed = sample.0;
    layers.read_within("audit.rows_per_second", &mut audit.rows_per_second, 1..=100_000);
    layers.read_within("audit.keep_days", &mut audit.keep_days, 1..=36_500);
    layers.read("audit.max_bytes", &mut audit.max_bytes);
    if audit.max_bytes < MIN_BYTES {
        layers.refuse("audit.max_bytes", format!("at least {MIN_BYTES} are needed"));
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    On,
    Off,
}

impl Choice for Switch {
    /// YAML 1.1 reads `on` and `off` as `true` and `false`.
    const ALL: &'static [(&'static str, Self)] =
        &[("on", Self::On), ("off", Self::Off), ("true", Self::On), ("false", Self::Off)];
}
