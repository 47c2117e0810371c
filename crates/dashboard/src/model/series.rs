//! Figures over time. All points of a series are `step_seconds` apart; `None` is a point without data, as before the
//! server started.

use super::time::Time;

/// A figure of now, with its recent course for a sparkline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// The value now, or over the range where it is a share.
    pub value: f64,
    /// The course over the range, the oldest first; about 24 to 60 points.
    pub course: Vec<f64>,
}

/// Requests per second by outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestSeries {
    /// The moment of the first point.
    pub start: Time,
    /// The distance of two points.
    pub step_seconds: u64,
    /// Allowed without a delay, unlimited ones included.
    pub allowed: Vec<Option<f64>>,
    /// Allowed after a delay.
    pub throttled: Vec<Option<f64>>,
    /// Refused, denied, or not checked.
    pub refused: Vec<Option<f64>>,
    /// What stands behind single points.
    pub notes: Vec<PointNote>,
    /// Changes of the policy within the range.
    pub marks: Vec<RevisionMark>,
}

/// What stands behind one point of a series: "login: 91 % of refusals, of one client".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointNote {
    /// Which point.
    pub index: usize,
    /// The note.
    pub text: String,
}

/// A change of the policy, as a dashed line in a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionMark {
    /// When.
    pub at: Time,
    /// The revision that it made.
    pub revision: u64,
    /// What changed, in a few words: "login 5 → 10".
    pub what: String,
}

/// Quantiles of a latency in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencySeries {
    /// The moment of the first point.
    pub start: Time,
    /// The distance of two points.
    pub step_seconds: u64,
    /// The median.
    pub p50: Vec<Option<f64>>,
    /// The 95th percentile.
    pub p95: Vec<Option<f64>>,
    /// The 99th percentile.
    pub p99: Vec<Option<f64>>,
}
