//! A histogram of durations that many threads can write to without waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets in microseconds; the last one has none.
const BOUNDS: [u64; 16] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 250_000, 1_000_000];

/// Counts durations by length.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSnapshot {
    /// The upper bound of each bucket in seconds, and how many fell into it.
    pub buckets: Vec<(f64, u64)>,
    /// How many durations there were.
    pub count: u64,
    /// Seconds in all.
    pub sum: f64,
}

impl Histogram {
    /// Counts a duration.
    pub fn observe(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| bound * 1_000 < nanos);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Reads the counts.
    #[must_use]
    pub fn read(&self) -> HistogramSnapshot {
        let bounds = BOUNDS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<_> = bounds.zip(counts).collect();
        HistogramSnapshot {
            count: buckets.iter().map(|(_, count)| count).sum(),
            sum: self.nanos.load(Ordering::Relaxed) as f64 / 1e9,
            buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_the_first_bucket_that_holds_them() {
        let histogram = Histogram::default();
        for nanos in [0, 1_000, 1_001, 3_000_000, u64::MAX / 2] {
            histogram.observe(Duration::from_nanos(nanos));
        }
        let HistogramSnapshot { buckets, count, .. } = histogram.read();
        let counts: Vec<u64> = buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
        assert_eq!(count, 5);
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
