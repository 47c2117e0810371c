//! Two contestants measured side by side: they take turns, so that whatever else the machine does
//! meets both.

use std::time::Duration;

use crate::scale::Scale;

/// Nanoseconds per check, one sample for each round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    ours: Vec<f64>,
    peer: Vec<f64>,
}

impl Comparison {
    /// Lets both run in turns. A contestant runs for about the time given and says how many
    /// nanoseconds a check took. The first round warms up and is not counted.
    pub(crate) fn of(
        scale: &Scale,
        mut ours: impl FnMut(Duration) -> f64,
        mut peer: impl FnMut(Duration) -> f64,
    ) -> Self {
        let mut comparison = Self::default();
        for round in 0..=scale.rounds {
            let (ours, peer) = (ours(scale.turn), peer(scale.turn));
            if round > 0 {
                comparison.ours.push(ours);
                comparison.peer.push(peer);
            }
        }
        comparison
    }

    /// Our median.
    pub(crate) fn ours(&self) -> f64 {
        median(&self.ours)
    }

    /// The peer's median.
    pub(crate) fn peer(&self) -> f64 {
        median(&self.peer)
    }

    /// How many times faster we are, by medians.
    pub(crate) fn ratio(&self) -> f64 {
        self.peer() / self.ours()
    }

    /// The least and the largest ratio of any round.
    pub(crate) fn spread(&self) -> (f64, f64) {
        let ratios = || self.peer.iter().zip(&self.ours).map(|(peer, ours)| peer / ours);
        (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max))
    }
}

pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
    let lower = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN);
    f64::midpoint(lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_of_the_medians_and_the_first_round_does_not_count() {
        let mut ours = [100.0, 10.0, 20.0].into_iter();
        let mut peer = [1.0, 30.0, 90.0].into_iter();
        let comparison = Comparison::of(
            &Scale::QUICK,
            |_| ours.next().unwrap_or(f64::NAN),
            |_| peer.next().unwrap_or(f64::NAN),
        );
        let close = |figure: f64, expected: f64| assert!((figure - expected).abs() < 1e-9);
        close(comparison.ours(), 15.0);
        close(comparison.peer(), 60.0);
        close(comparison.ratio(), 4.0);
        close(comparison.spread().0, 3.0);
        close(comparison.spread().1, 4.5);
    }

    #[test]
    fn a_median_is_the_middle() {
        let check = |samples: &[f64], expected: f64| {
            assert!((median(samples) - expected).abs() < 1e-9, "{samples:?}");
        };
        check(&[3.0], 3.0);
        check(&[9.0, 1.0, 2.0], 2.0);
        check(&[4.0, 1.0, 2.0, 9.0], 3.0);
    }
}
