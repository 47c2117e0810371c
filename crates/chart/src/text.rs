//! Texts and figures inside of SVG and HTML.

use std::fmt::Write as _;

/// A text for SVG or HTML, in elements and in quoted attributes: markup is escaped, and characters that cannot be
/// seen or that reorder what is around them are [`shown`].
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => show(c, &mut escaped),
        }
    }
    escaped
}

/// A text with its control, bidi, zero-width and other invisible characters as `\u{202e}`, so that it cannot pretend
/// to be another. Line breaks too: names and paths have none.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars().for_each(|c| show(c, &mut shown));
    shown
}

fn show(c: char, text: &mut String) {
    if is_invisible(c) {
        // Writing to a text cannot fail.
        let _ = write!(text, "\\u{{{:x}}}", u32::from(c));
    } else {
        text.push(c);
    }
}

/// Characters without a picture of their own: controls, format characters, fillers, separators, tags, variation
/// selectors, private use and noncharacters (which XML forbids).
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{10ffff}')
}

/// A number with at most two decimals and no needless digit.
pub(crate) fn number(value: f64) -> String {
    decimal(value, 2)
}

fn decimal(value: f64, decimals: usize) -> String {
    let mut digits = format!("{value:.decimals$}");
    if digits.contains('.') {
        digits.truncate(digits.trim_end_matches('0').trim_end_matches('.').len());
    }
    if digits == "-0" { "0".to_owned() } else { digits }
}

/// A value of an axis with steps of `step`: `1.5k`, `200`, `0.25`.
pub(crate) fn tick(value: f64, step: f64) -> String {
    let (scale, suffix) = match value {
        value if value >= 1e12 => (1e12, "T"),
        value if value >= 1e9 => (1e9, "G"),
        value if value >= 1e6 => (1e6, "M"),
        value if value >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    // Steps are 1, 2, 2.5 or 5 times a power of ten.
    let mut decimals = 0;
    let mut unit = step / scale;
    while decimals < 9 && (unit - unit.round()).abs() > 1e-6 * unit {
        unit *= 10.0;
        decimals += 1;
    }
    format!("{}{suffix}", decimal(value / scale, decimals))
}

/// About how wide a text of a tick is, in units of the view box.
pub(crate) fn width_of(text: &str) -> f64 {
    f64::from(u32::try_from(text.chars().count()).unwrap_or(u32::MAX)) * 6.4
}

/// A text that is at most so wide, with an ellipsis for what was cut.
pub(crate) fn fitted(text: &str, width: f64) -> String {
    let text = shown(text);
    if width_of(&text) <= width {
        return text;
    }
    let mut fitted = String::new();
    for c in text.chars() {
        if width_of(&fitted) + 2.0 * 6.4 > width {
            break;
        }
        fitted.push(c);
    }
    fitted + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_invisible_characters_are_harmless() {
        let check = |text: &str, expected: &str| assert_eq!(escaped(text), expected, "{text:?}");
        check("a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#39;");
        check("/\u{202e}fdp.exe", "/\\u{202e}fdp.exe");
        check("\u{1b}[31m\n", "\\u{1b}[31m\\u{a}");
        check("zero\u{200b}width\u{feff}", "zero\\u{200b}width\\u{feff}");
        check("Grüße 東京 🙂", "Grüße 東京 🙂");
        assert_eq!(shown("<\u{0}>"), "<\\u{0}>");
    }

    #[test]
    fn figures_are_short() {
        let check = |value, step, expected: &str| assert_eq!(tick(value, step), expected);
        check(0.0, 500.0, "0");
        check(500.0, 500.0, "500");
        check(1_500.0, 500.0, "1.5k");
        check(2_000.0, 500.0, "2k");
        check(0.25, 0.05, "0.25");
        check(0.3, 0.1, "0.3");
        check(2_500_000.0, 2_500_000.0, "2.5M");
        check(7.5, 2.5, "7.5");
        assert_eq!(number(1.0 / 3.0), "0.33");
        assert_eq!(number(-0.001), "0");
        assert_eq!(number(100.0), "100");
    }

    #[test]
    fn long_names_end_with_an_ellipsis() {
        assert_eq!(fitted("sliding_window_counter", 200.0), "sliding_window_counter");
        assert_eq!(fitted("sliding_window_counter", 64.0), "sliding_w…");
        assert_eq!(fitted("sliding_window_counter", 0.0), "…");
    }
}
