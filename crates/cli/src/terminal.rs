//! Figures for people: grouped digits, shares, spans of time, small charts, progress.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp as Moment;
use tollgate::Timestamp;
use unicode_width::UnicodeWidthChar as _;

/// Digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// So many of a thing, by its name in the singular.
pub(crate) fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(number))
}

/// A share in per cent, rounded.
pub(crate) fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let hundredths = (u128::from(part) * 10_000 + u128::from(whole / 2)) / u128::from(whole);
    if part > 0 && hundredths == 0 {
        return "<0.01 %".to_owned();
    }
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// A span of time in its two largest units; the smaller one only if there is something of it.
pub(crate) fn span(micros: u64) -> String {
    let millis = micros / 1_000;
    let seconds = millis / 1_000;
    let both = |large: u64, large_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {large_unit}"),
        small => format!("{large} {large_unit} {small} {small_unit}"),
    };
    match seconds {
        0 if micros == 0 => "0 s".to_owned(),
        0 if millis == 0 => format!("{micros} us"),
        0 => format!("{millis} ms"),
        1..60 if millis.is_multiple_of(1_000) => format!("{seconds} s"),
        1..60 => format!("{seconds}.{:03} s", millis % 1_000),
        60..3_600 => both(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => both(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        _ => both(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

/// A limit, as everywhere: `10 / 1 s`, or with a burst `10 / 1 s, burst 50`. `burst` is the most that can be in use.
pub(crate) fn quota(limit: u64, window: &str, burst: u64) -> String {
    let burst = if burst == limit { String::new() } else { format!(", burst {}", grouped(burst)) };
    format!("{} / {window}{burst}", grouped(limit))
}

/// A moment to the second, in UTC.
pub(crate) fn moment(time: Timestamp) -> String {
    i64::try_from(time.as_micros())
        .ok()
        .and_then(|micros| Moment::from_microsecond(micros).ok())
        .map_or_else(
            || format!("{} us", time.as_micros()),
            |moment| moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        )
}

/// A row of bars, each as high as its value compared with the largest.
pub(crate) fn sparkline(values: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let bar = |value: u64| {
        let height = (u128::from(value) * 7).div_ceil(u128::from(most));
        // Zero is blank, so that it differs from a small value.
        if value == 0 { ' ' } else { BARS[usize::try_from(height).unwrap_or(7).min(7)] }
    };
    values.iter().map(|value| bar(*value)).collect()
}

/// A window or a wait.
pub(crate) fn lasting(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|lasting| u64::try_from(lasting.as_micros()).ok())
        .map_or_else(|| format!("{seconds} s"), span)
}

/// How many marks a letter may have: those of a cluster are drawn into one cell, and more of them into the lines around.
const MAX_MARKS: usize = 2;

/// A text from elsewhere without characters that would do something to the terminal, or that make a line look like another:
/// controls, marks of direction, spaces and breaks that are not seen, and heaps of combining marks.
pub(crate) fn printable(text: &str) -> String {
    // A mark without a letter would be drawn over what is left of the text.
    let mut marks = MAX_MARKS;
    let shown = text.chars().map(|c| {
        let is_mark = c.width() == Some(0);
        marks = if is_mark { marks.saturating_add(1) } else { 0 };
        if is_unsafe(c) || (is_mark && marks > MAX_MARKS) { '\u{fffd}' } else { c }
    });
    shown.collect()
}

/// Several lines for a terminal, without characters that would do something to it.
pub(crate) fn printable_lines(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// JSON for a terminal: the same value, with escapes for characters that would do something to it.
pub(crate) fn printable_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        // Line breaks and the like are between values; inside of texts, JSON has escapes for them.
        if is_unsafe(c) && !c.is_ascii_whitespace() {
            for unit in c.encode_utf16(&mut [0; 2]) {
                shown += &format!("\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a character is a control, or is not seen but changes how others are shown.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// An actor of the audit log: a token by its name and id, if it has a name.
pub(crate) fn named_actor(actor: &str, name: Option<&str>) -> String {
    name.map_or_else(|| actor.to_owned(), |name| format!("{name} ({actor})"))
}

/// A bar on standard error, if that is a terminal.
pub(crate) fn progress(length: Option<u64>, what: &'static str, unit: &str) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(length, target);
    let amounts = match unit {
        "bytes" => "{bytes}/{total_bytes}",
        _ => "{human_pos}/{human_len}",
    };
    let template = match length {
        Some(_) => format!("{{msg}} {{bar:40}} {amounts} {{eta}}"),
        None => "{msg} {spinner} {bytes}".to_owned(),
    };
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(share(1, 3), "33.33 %");
        assert_eq!(share(1, 1_000_000), "<0.01 %");
        assert_eq!(share(0, 7), "0.00 %");
        assert_eq!(share(7, 7), "100.00 %");
        assert_eq!(share(0, 0), "-");
        assert_eq!(span(0), "0 s");
        assert_eq!(span(999), "999 us");
        assert_eq!(span(1_000), "1 ms");
        assert_eq!(
            (count(1, "request"), count(0, "request")),
            ("1 request".into(), "0 requests".into())
        );
        assert_eq!(quota(1_000, "1 h", 1_000), "1,000 / 1 h");
        assert_eq!(quota(10, "1 s", 5_000), "10 / 1 s, burst 5,000");
        assert_eq!(span(1_500_000), "1.500 s");
        assert_eq!(span(46_000_000), "46 s");
        assert_eq!(span(60_000_000), "1 min");
        assert_eq!(span(61_000_000), "1 min 1 s");
        assert_eq!(span(3_600_000_000), "1 h");
        assert_eq!(span(86_400_000_000), "1 d");
        assert_eq!(span(3_661_000_000), "1 h 1 min");
        assert_eq!(span(90_000_000_000), "1 d 1 h");
        assert_eq!(moment(Timestamp::from_secs(1_431_857_103)), "2015-05-17 10:05:03 UTC");
    }

    #[test]
    fn a_text_does_nothing_to_the_terminal() {
        assert_eq!(
            printable("a\u{1b}[2J\r\nb\u{202e}c\u{2066}d\u{feff}"),
            "a\u{fffd}[2J\u{fffd}\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}"
        );
        assert_eq!(printable("Zoë 中文 \u{1f600}"), "Zoë 中文 \u{1f600}");
        // Letters with marks stay; heaps of marks, and marks without a letter, do not.
        assert_eq!(printable("Zoe\u{308} हिन्दी"), "Zoe\u{308} हिन्दी");
        assert_eq!(printable("e\u{301}\u{302}\u{303}"), "e\u{301}\u{302}\u{fffd}");
        assert_eq!(printable("\u{301}a"), "\u{fffd}a");
        for unseen in
            ['\u{ad}', '\u{200d}', '\u{fe0f}', '\u{e0041}', '\u{3164}', '\u{9b}', '\u{7f}']
        {
            assert_eq!(printable(&format!("a{unseen}b")), "a\u{fffd}b", "{unseen:?}");
        }
    }

    #[test]
    fn json_for_a_terminal_has_the_same_value() {
        let text = "{\n \"a\": \"\u{9b}2J\u{202e}中\u{e0041}\u{7f}\"\n}";
        let shown = printable_json(text);
        assert_eq!(shown, "{\n \"a\": \"\\u009b2J\\u202e中\\udb40\\udc41\\u007f\"\n}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(value(&shown), value(text));
    }

    #[test]
    fn a_little_looks_different_from_nothing() {
        assert_eq!(sparkline(&[0, 1, 50, 100]), " ▂▅█");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[0, 0]), "  ");
    }
}
