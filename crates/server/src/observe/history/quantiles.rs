//! Quantiles of durations, from how much the buckets of a histogram grew.

use tollgate::store::HistogramSnapshot;

use super::Quantiles;

/// How many buckets the histograms of the server have.
pub(super) const BUCKETS: usize = 17;

/// How many durations fell into each bucket.
pub(super) type Buckets = [u32; BUCKETS];

/// How much a histogram grew.
pub(super) fn growth(before: &HistogramSnapshot, after: &HistogramSnapshot) -> Buckets {
    let mut growth = [0; BUCKETS];
    let before = before.buckets.iter().map(|(_, count)| *count).chain(std::iter::repeat(0));
    for ((place, (_, count)), before) in growth.iter_mut().zip(&after.buckets).zip(before) {
        *place = u32::try_from(count.saturating_sub(before)).unwrap_or(u32::MAX);
    }
    growth
}

/// The quantiles of these durations. Within a bucket, durations are taken to be spread evenly; of the last one only its
/// lower bound is known.
pub(super) fn quantiles(buckets: &Buckets, bounds: &[f64]) -> Quantiles {
    let quantile = |share: f64| {
        let count: u64 = buckets.iter().map(|count| u64::from(*count)).sum();
        let wanted = share * count as f64;
        let (mut below, mut lower) = (0.0, 0.0);
        for (count, upper) in buckets.iter().zip(bounds) {
            let count = f64::from(*count);
            if count > 0.0 && below + count >= wanted {
                let part = ((wanted - below) / count).clamp(0.0, 1.0);
                return Some(if upper.is_finite() {
                    lower + (upper - lower) * part
                } else {
                    lower
                });
            }
            (below, lower) = (below + count, *upper);
        }
        None
    };
    Quantiles { p50: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::store::Histogram;

    use super::*;

    fn bounds() -> Vec<f64> {
        Histogram::default().read().buckets.iter().map(|(bound, _)| *bound).collect()
    }

    #[test]
    fn the_histograms_of_the_server_have_as_many_buckets() {
        assert_eq!(bounds().len(), BUCKETS);
    }

    #[test]
    fn quantiles_are_within_the_buckets_of_the_durations() {
        let histogram = Histogram::default();
        let before = histogram.read();
        for micros in (1..=100).map(|number| number * 10) {
            histogram.observe(Duration::from_micros(micros));
        }
        let grown = growth(&before, &histogram.read());
        let Quantiles { p50, p95, p99 } = quantiles(&grown, &bounds());
        let check = |quantile: Option<f64>, expected: f64| {
            let error = quantile.map(|it| (it - expected).abs() / expected);
            assert!(error.is_some_and(|error| error < 0.05), "{quantile:?}, not {expected}");
        };
        check(p50, 0.000_5);
        check(p95, 0.000_95);
        check(p99, 0.000_99);
        assert_eq!(growth(&histogram.read(), &histogram.read()), [0; BUCKETS]);
        assert_eq!(quantiles(&[0; BUCKETS], &bounds()), Quantiles::default());
        let mut slow = [0; BUCKETS];
        slow[BUCKETS - 1] = 3;
        assert_eq!(quantiles(&slow, &bounds()).p50, Some(1.0), "a second or more");
    }
}
