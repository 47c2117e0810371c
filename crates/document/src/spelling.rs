//! Guesses which name was meant by a misspelt one.

/// Longer names are not compared: they are no typing errors, and comparing takes time.
const MAX_LENGTH: usize = 64;

/// The candidate with the fewest edits, if those are at most a third of its letters. Case does not
/// matter, and a hyphen or space counts as an underscore.
pub fn closest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let text = text.to_lowercase().replace(['-', ' '], "_");
    candidates
        .into_iter()
        .map(|candidate| (edits(&text, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= candidate.len() / 3)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// How many letters have to be inserted, removed, replaced or swapped with their neighbour.
#[must_use]
pub fn edits(text: &str, name: &str) -> usize {
    strsim::osa_distance(text, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_typing_errors_only() {
        let names = ["limit", "burst", "window", "window_seconds", "costs", "cost"];
        for (text, expected) in [
            ("limt", Some("limit")),
            ("limits", Some("limit")),
            ("Limit", Some("limit")),
            ("lmiit", Some("limit")),
            ("window-seconds", Some("window_seconds")),
            ("window_second", Some("window_seconds")),
            ("csot", Some("cost")),
            ("mode", None),
            ("", None),
        ] {
            assert_eq!(closest(text, names), expected, "{text}");
        }
        assert_eq!(closest(&"limit".repeat(1 << 20), names), None);
    }
}
