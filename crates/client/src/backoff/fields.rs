//! Values of header fields about limits, as far as they are needed: numbers, and lists of parameters.

use http::HeaderMap;

/// The text of a field, if it is there and readable.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// A number of seconds or requests. A part of a second counts as a whole one, so that no client returns
/// too early.
pub(super) fn number(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(part) {
        return None;
    }
    let is_over = part.bytes().any(|digit| digit != b'0');
    whole.parse::<u64>().ok()?.checked_add(u64::from(is_over))
}

/// The seconds until something is left again, if a line of `RateLimit` says that nothing is: the
/// longest, if it says so of several limits. `"a";r=0;t=5` is how newer drafts put it, `remaining=0,
/// reset=5` how older ones do.
pub(super) fn exhausted(line: &str) -> Option<u64> {
    let (mut longest, mut remaining, mut reset) = (None, None, None);
    for item in unquoted(line, ',') {
        let (mut left, mut time) = (None, None);
        for (name, value) in unquoted(item, ';').filter_map(|part| part.split_once('=')) {
            let place = match name.trim() {
                "r" => &mut left,
                "t" => &mut time,
                "remaining" => &mut remaining,
                "reset" => &mut reset,
                _ => continue,
            };
            *place = number(value.trim());
        }
        longest = longest.max(time.filter(|_| left == Some(0)));
    }
    longest.max(reset.filter(|_| remaining == Some(0)))
}

/// The parts of a text between separators that are not within quotes.
fn unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |c| {
        if is_escaped {
            is_escaped = false;
            return false;
        }
        match c {
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        c == separator && !is_quoted
    })
}
