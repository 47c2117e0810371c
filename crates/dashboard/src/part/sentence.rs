//! Sentences of the server: what they put in backticks becomes code, and moments are shown like others on the page.

use maud::{Markup, html};

use super::texts::{moment, t};
use crate::model::Time;

/// A sentence that the server made, with texts of others in it.
pub(crate) fn sentence(text: &str, now: Time) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // A backtick within what was quoted: it cannot be known where the quotation ends.
    if parts.len().is_multiple_of(2) {
        return words(text, now);
    }
    html! {
        @for (at, part) in parts.iter().enumerate() {
            @if at % 2 == 1 { code { (t(part)) } } @else { (words(part, now)) }
        }
    }
}

/// Text without quotations.
fn words(text: &str, now: Time) -> Markup {
    html! {
        @for (at, word) in text.split(' ').enumerate() {
            @if at > 0 { " " }
            @let bare = word.trim_end_matches([',', ';', '.', ')']);
            @match Time::of_rfc_3339(bare) {
                Some(time) => { (moment(time, now)) (t(&word[bare.len()..])) }
                None => (t(word)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let now = Time::from_secs(1_763_470_868);
        assert_eq!(sentence(text, now).into_string(), expected, "{text}");
    }

    #[test]
    fn quotations_are_code_and_moments_are_short() {
        check("the path is `/login`", "the path is <code>/login</code>");
        check(
            "`<b>` and `2026-01-01T00:00:00Z`",
            "<code>&lt;b&gt;</code> and <code>2026-01-01T00:00:00Z</code>",
        );
        check("the path is `/a`b`", "the path is `/a`b`");
        let time = r#"<time datetime="2025-11-18T22:19:43.660Z" title="2025-11-18T22:19:43.660Z">22:19:43</time>"#;
        check("banned until 2025-11-18T22:19:43.660787Z", &format!("banned until {time}"));
        check("until 2025-11-18T22:19:43.66Z, by ip", &format!("until {time}, by ip"));
        check("2025-13-18T22:19:43Z", "2025-13-18T22:19:43Z");
    }
}
