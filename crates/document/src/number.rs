//! Numbers exactly as written: from decimal text to integers, never through a float.

/// A number in units of some power of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exact {
    /// Whether it is below zero; zero never is.
    pub(crate) negative: bool,
    /// Its distance from zero.
    pub(crate) magnitude: u128,
}

/// Why a text is not such a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotExact {
    /// It is no decimal number at all: `.inf`, say.
    NotDecimal,
    /// It has more fraction digits than the unit.
    TooFine,
    /// It is larger than anything we count.
    TooLarge,
}

/// The number `text` in units of 10^-`digits`: with 3 digits, `1.5` is 1500.
pub(crate) fn exact(text: &str, digits: u32) -> Result<Exact, NotExact> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
        return Err(NotExact::NotDecimal);
    }
    let shift = exponent.map_or(Ok(0), parse_exponent)?;

    let written = [whole, fraction].concat();
    let significant = written.trim_end_matches('0');
    let shift = shift
        .saturating_sub_unsigned(fraction.len() as u64)
        .saturating_add_unsigned((written.len() - significant.len()) as u64)
        .saturating_add(i64::from(digits));
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Ok(Exact { negative: false, magnitude: 0 });
    }
    if shift < 0 {
        return Err(NotExact::TooFine);
    }
    let magnitude = u32::try_from(shift)
        .ok()
        .and_then(|shift| 10_u128.checked_pow(shift))
        .and_then(|scale| significant.parse::<u128>().ok()?.checked_mul(scale))
        .ok_or(NotExact::TooLarge)?;
    Ok(Exact { negative, magnitude })
}

/// The exponent, or the largest there is: nothing of that size is accepted anyway.
fn parse_exponent(text: &str) -> Result<i64, NotExact> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotExact::NotDecimal);
    }
    let size = digits.parse::<i64>().unwrap_or(i64::MAX);
    Ok(if text.starts_with('-') { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, digits: u32, expected: Result<i128, NotExact>) {
        let found = exact(text, digits).map(|number| {
            let magnitude = i128::try_from(number.magnitude).expect("small in these cases");
            if number.negative { -magnitude } else { magnitude }
        });
        assert_eq!(found, expected, "{text} with {digits} digits");
    }

    #[test]
    fn is_exact() {
        for (text, digits, expected) in [
            ("0", 0, Ok(0)),
            ("-0", 3, Ok(0)),
            ("+7", 0, Ok(7)),
            ("-7", 0, Ok(-7)),
            ("1.5", 3, Ok(1500)),
            ("1.", 0, Ok(1)),
            (".5", 1, Ok(5)),
            ("1e3", 0, Ok(1000)),
            ("1E+3", 0, Ok(1000)),
            ("1500e-3", 1, Ok(15)),
            ("0.1", 6, Ok(100_000)),
            ("5.000", 0, Ok(5)),
            ("0010", 0, Ok(10)),
            ("9223372036854775807", 0, Ok(i128::from(i64::MAX))),
            ("0e999999999999999999999", 0, Ok(0)),
            ("0.0005", 3, Err(NotExact::TooFine)),
            ("1e-999999999999999999999", 3, Err(NotExact::TooFine)),
            ("1e999999999999999999999", 0, Err(NotExact::TooLarge)),
            ("1e39", 0, Err(NotExact::TooLarge)),
            (".inf", 0, Err(NotExact::NotDecimal)),
            ("-.inf", 0, Err(NotExact::NotDecimal)),
            (".nan", 0, Err(NotExact::NotDecimal)),
            ("", 0, Err(NotExact::NotDecimal)),
            (".", 0, Err(NotExact::NotDecimal)),
            ("1e", 0, Err(NotExact::NotDecimal)),
            ("--1", 0, Err(NotExact::NotDecimal)),
            ("1e--1", 0, Err(NotExact::NotDecimal)),
            ("1_000", 0, Err(NotExact::NotDecimal)),
        ] {
            check(text, digits, expected);
        }
    }
}
