//! Numbers and shares as people type them: `20%`, `0.1 %`, `100`.

/// Fraction digits that a number may have.
pub const MAX_FRACTION: usize = 6;

/// A decimal number in millionths; `None` if it is none, or has too many digits.
#[must_use]
pub fn millionths(text: &str) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let is_short = fraction.len() <= MAX_FRACTION && whole.len() <= 18;
    if !is_number(whole) || !is_number(fraction) || !is_short {
        return None;
    }
    format!("{whole}{fraction:0<MAX_FRACTION$}").parse().ok()
}

/// A share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent {
    /// Millionths of a per cent.
    millionths: u128,
}

impl Percent {
    /// Reads `20%` or `20`, up to that many per cent.
    ///
    /// # Errors
    /// What would be right, if it is no such share.
    pub fn parse(text: &str, most: u32) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').unwrap_or(text.trim()).trim_end();
        let share = millionths(number).filter(|share| *share <= u128::from(most) * 1_000_000);
        let wrong = || format!("write a share from 0% to {most}%, like 20% or 0.1%");
        share.map(|millionths| Self { millionths }).ok_or_else(wrong)
    }

    /// This share of an amount, rounded down.
    #[must_use]
    pub fn of(self, amount: u64) -> u64 {
        let share = u128::from(amount) * self.millionths / 100_000_000;
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Half of it.
    #[must_use]
    pub fn half(self) -> Self {
        Self { millionths: self.millionths / 2 }
    }

    /// An amount and this share on top, rounded up.
    #[must_use]
    pub fn on_top_of(self, amount: u64) -> u64 {
        let more = (u128::from(amount) * self.millionths).div_ceil(100_000_000);
        amount.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
    }
}

impl std::fmt::Display for Percent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, fraction) = (self.millionths / 1_000_000, self.millionths % 1_000_000);
        let text = format!("{whole}.{fraction:06}");
        write!(f, "{} %", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact() {
        let share = |text: &str| Percent::parse(text, 1_000).expect("a share");
        assert_eq!(share("0.1%").of(10_000), 10);
        assert_eq!(share("0.1 %").half().of(10_000), 5);
        assert_eq!(share("20").on_top_of(41), 50);
        assert_eq!(share("0%").on_top_of(41), 41);
        assert_eq!(share("100%").of(u64::MAX), u64::MAX);
        assert_eq!(share("0.050%").to_string(), "0.05 %");
        assert_eq!(share("120%").to_string(), "120 %");
        for wrong in ["", "%", "-1%", "1e3", "0.0000001%", "1.", "1001%", "٣%"] {
            assert!(Percent::parse(wrong, 1_000).is_err(), "{wrong}");
        }
    }
}
