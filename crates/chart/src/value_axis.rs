//! The vertical axis: from zero to a round value, in a few round steps.

/// Most steps of an axis.
const MAX_STEPS: f64 = 4.0;
/// Less than this is drawn as nothing.
const MIN_TOP: f64 = 1e-9;

/// A scale from zero to `top`, with a line at each multiple of `step`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ValueAxis {
    pub(crate) top: f64,
    pub(crate) step: f64,
}

impl ValueAxis {
    /// The axis that shows values up to `most`.
    pub(crate) fn for_values_up_to(most: f64) -> Self {
        if !most.is_finite() || most < MIN_TOP {
            return Self { top: 1.0, step: 1.0 };
        }
        let rough = most / MAX_STEPS;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            // Rounding must not add a step.
            .find(|step| most / step <= MAX_STEPS + 1e-9)
            .unwrap_or(10.0 * power);
        Self { top: step * (most / step - 1e-9).ceil().max(1.0), step }
    }

    /// The values with a line, from zero up.
    pub(crate) fn ticks(self) -> Vec<f64> {
        (0u8..=5)
            .map(|i| f64::from(i) * self.step)
            .filter(|value| *value <= self.top * (1.0 + 1e-9))
            .collect()
    }

    /// How high a value stands: 0 at the bottom, 1 at the top.
    pub(crate) fn fraction(self, value: f64) -> f64 {
        (value / self.top).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        let check = |most: f64, expected: &[f64]| {
            let ticks = ValueAxis::for_values_up_to(most).ticks();
            assert_eq!(ticks.len(), expected.len(), "{most}: {ticks:?}");
            for (tick, expected) in ticks.iter().zip(expected) {
                assert!((tick - expected).abs() <= 1e-9 * expected, "{most}: {ticks:?}");
            }
        };
        check(0.0, &[0.0, 1.0]);
        check(f64::NAN, &[0.0, 1.0]);
        check(1.0, &[0.0, 0.25, 0.5, 0.75, 1.0]);
        check(3.0, &[0.0, 1.0, 2.0, 3.0]);
        check(4.0, &[0.0, 1.0, 2.0, 3.0, 4.0]);
        check(2_184.0, &[0.0, 1_000.0, 2_000.0, 3_000.0]);
        check(96.0, &[0.0, 25.0, 50.0, 75.0, 100.0]);
        check(0.031, &[0.0, 0.01, 0.02, 0.03, 0.04]);
        check(1e15, &[0.0, 2.5e14, 5e14, 7.5e14, 1e15]);
    }
}
