//! One line of the report: a figure and the bar it is held against.

use std::fmt;

use crate::contest::Comparison;

/// What a ratio must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bar {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

impl Bar {
    pub(crate) fn is_met_by(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bar) => ratio >= bar,
            Self::AtMost(bar) => ratio <= bar,
            Self::Below(bar) => ratio < bar,
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bar) => write!(f, ">= {bar}"),
            Self::AtMost(bar) => write!(f, "<= {bar}"),
            Self::Below(bar) => write!(f, "< {bar}"),
        }
    }
}

/// A measured row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// What is held against the bar.
    pub(crate) ratio: f64,
    /// What the ratio is counted in; empty if it is a mere number.
    pub(crate) unit: &'static str,
    pub(crate) bar: Option<Bar>,
    /// The least and the largest ratio of any round.
    pub(crate) spread: Option<(f64, f64)>,
    /// What the ratio was made of, by name.
    pub(crate) figures: Vec<(&'static str, f64)>,
}

impl Row {
    /// A figure without a comparison.
    pub(crate) fn figure(name: impl Into<String>, ratio: f64, unit: &'static str) -> Self {
        Self { name: name.into(), ratio, unit, bar: None, spread: None, figures: Vec::new() }
    }

    /// How many times faster we are than a peer.
    pub(crate) fn speedup(name: impl Into<String>, comparison: &Comparison) -> Self {
        Self { spread: Some(comparison.spread()), ..Self::figure(name, comparison.ratio(), "x") }
            .with("ours_ns", comparison.ours())
            .with("peer_ns", comparison.peer())
    }

    pub(crate) fn held_to(self, bar: Bar) -> Self {
        Self { bar: Some(bar), ..self }
    }

    pub(crate) fn with(mut self, name: &'static str, figure: f64) -> Self {
        self.figures.push((name, figure));
        self
    }
}
