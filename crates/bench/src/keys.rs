//! Keys as they are common: short strings, drawn at random.

use crate::Fallible;

/// Draws numbers below a bound, all equally likely, always the same ones for one seed.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    state: u64,
    bound: u64,
}

impl Draw {
    pub(crate) fn new(seed: u64, bound: u64) -> Self {
        Self { state: mixed(seed), bound }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(self.bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number from 0 up to, not including, 1.
    #[inline]
    pub(crate) fn next_fraction(&mut self) -> f64 {
        // A double has 53 bits.
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[inline]
    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        mixed(self.state)
    }
}

/// The finaliser of splitmix64: as good as random, and different for different inputs.
#[inline]
const fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The eight hexadecimal digits of a number, one in each byte, all at once.
#[inline]
const fn digits(number: u32) -> u64 {
    let mut halves = number as u64;
    halves = (halves | halves << 16) & 0x0000_ffff_0000_ffff;
    halves = (halves | halves << 8) & 0x00ff_00ff_00ff_00ff;
    halves = (halves | halves << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let is_letter = (halves + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    halves + 0x3030_3030_3030_3030 + is_letter * 0x27
}

/// The text of a key, written over and over into the same buffer: 16 bytes, `u:` and 14 digits.
#[derive(Clone, Debug)]
pub(crate) struct KeyText(String);

impl KeyText {
    pub(crate) fn new() -> Self {
        Self(String::with_capacity(16))
    }

    /// Writes the key of that number.
    #[inline]
    pub(crate) fn write(&mut self, number: u64) {
        let bits = mixed(number);
        let (upper, lower) = (digits((bits >> 32) as u32), digits(bits as u32));
        let mut text = u128::from(upper) << 64 | u128::from(lower);
        text = text & !0xffff | u128::from(u16::from_le_bytes(*b"u:"));
        let text = text.to_le_bytes();
        self.0.clear();
        self.0.push_str(str::from_utf8(&text).unwrap_or_default());
    }

    /// The key of that number.
    pub(crate) fn of(&mut self, number: u64) -> &String {
        self.write(number);
        &self.0
    }

    #[inline]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// How many texts are written before the first of them is checked.
const PREFETCH_CAPACITY: usize = 64;

/// Keys whose texts are written ahead of their checks, as those of real requests are: reading a text right after it
/// is written would stall the processor.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    draw: Draw,
    texts: [KeyText; PREFETCH_CAPACITY],
    refused: u64,
}

impl Walk {
    /// Keys whose numbers are below `keys`.
    pub(crate) fn new(seed: u64, keys: u64) -> Self {
        let texts = std::array::from_fn(|_| KeyText::new());
        Self { draw: Draw::new(seed, keys), texts, refused: 0 }
    }

    /// Checks so many keys, one by one.
    #[inline]
    pub(crate) fn take(&mut self, steps: u32, mut check: impl FnMut(&String) -> bool) {
        self.take_batches(steps, |[text]: &[KeyText; 1]| u64::from(!check(&text.0)));
    }

    /// Checks so many keys, a batch at a time. `check` says how many it refused.
    #[inline]
    pub(crate) fn take_batches<const SIZE: usize>(
        &mut self,
        steps: u32,
        mut check: impl FnMut(&[KeyText; SIZE]) -> u64,
    ) {
        for _ in 0..steps as usize / PREFETCH_CAPACITY {
            for text in &mut self.texts {
                text.write(self.draw.next());
            }
            let (batches, _) = self.texts.as_chunks();
            self.refused += batches.iter().map(&mut check).sum::<u64>();
        }
    }

    /// A refused check writes nothing and would be measured as a fast one.
    pub(crate) fn expect_all_admitted(&self) -> Fallible<()> {
        match self.refused {
            0 => Ok(()),
            refused => Err(format!("{refused} checks were refused").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_are_different_and_sixteen_bytes_long() {
        let mut text = KeyText::new();
        let texts: HashSet<String> = (0..10_000).map(|number| text.of(number).clone()).collect();
        assert_eq!(texts.len(), 10_000);
        for text in &texts {
            let digits = text.strip_prefix("u:").unwrap_or_default();
            assert!(digits.len() == 14 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        }
    }

    #[test]
    fn digits_are_those_of_the_number() {
        let check = |number: u32| {
            let mut expected = format!("{number:08x}").into_bytes();
            expected.reverse();
            assert_eq!(digits(number).to_le_bytes().to_vec(), expected);
        };
        [0, 1, 0x9abc_def0, 0x1234_5678, u32::MAX].into_iter().for_each(check);
    }

    #[test]
    fn draws_stay_below_their_bound_and_reach_all_of_it() {
        let mut draw = Draw::new(7, 10);
        let drawn: HashSet<u64> = (0..1_000).map(|_| draw.next()).collect();
        assert_eq!(drawn, (0..10).collect());
    }

    #[test]
    fn a_walk_notices_refusals() {
        let mut walk = Walk::new(1, 1_000);
        walk.take(128, |_| true);
        assert!(walk.expect_all_admitted().is_ok());
        walk.take(128, |_| false);
        assert!(walk.expect_all_admitted().is_err());
    }
}
