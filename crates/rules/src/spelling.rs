//! Guesses what a misspelt name was meant to be.

/// Longer names are not compared: nobody mistypes those by a letter.
const MAX_LENGTH: usize = 64;

/// The candidate that differs from `text` by the fewest edits, if those are few enough to be typos.
pub(crate) fn closest<'a>(
    text: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let text = text.to_lowercase().replace(['-', ' '], "_");
    let tolerated = |candidate: &str| candidate.len() / 3;
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(text.len()) <= tolerated(candidate))
        .map(|candidate| (distance(&text, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= tolerated(candidate))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// How many letters have to be inserted, removed, replaced or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let from = from.chars().collect::<Vec<_>>();
    let to = to.chars().collect::<Vec<_>>();
    // Rows of the table of distances between beginnings; two are enough, three allow for swaps.
    let mut before_last = Vec::new();
    let mut last = (0..=to.len()).collect::<Vec<_>>();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut edits = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                edits = edits.min(before_last[j - 1] + 1);
            }
            row.push(edits);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_typos_only() {
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
    }
}
