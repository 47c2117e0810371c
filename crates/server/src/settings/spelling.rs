//! Guesses which setting was meant by a name that is none.

/// The name that differs by the fewest letters, if those are few enough to be a slip; or the one
/// that ends in what was written, if only its group was left out.
pub(super) fn closest<'a>(written: &str, names: &[&'a str]) -> Option<&'a str> {
    let written = written.to_lowercase().replace('-', "_");
    let slip = |name: &str| {
        let edits = distance(&written, name);
        (edits <= (name.len() / 4).max(1)).then_some(edits)
    };
    let by_letters = names.iter().filter_map(|name| Some((slip(name)?, *name))).min();
    let last_part = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let by_end = || names.iter().find(|name| last_part(name) == last_part(&written)).copied();
    by_letters.map(|(_, name)| name).or_else(by_end)
}

/// How many letters have to be inserted, removed or replaced.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().take(to.len() * 2 + 1).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let edits = (diagonal + usize::from(a != *b)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = edits;
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_slips_only() {
        let names = ["http", "memory", "check_auth", "limits.header_timeout", "identity.api_keys"];
        for (written, expected) in [
            ("htpp", Some("http")),
            ("Memory", Some("memory")),
            ("check-auth", Some("check_auth")),
            ("limits.header_timeot", Some("limits.header_timeout")),
            ("header_timeout", Some("limits.header_timeout")),
            ("identity.header_timeout", Some("limits.header_timeout")),
            ("port", None),
            ("service_host", None),
            ("", None),
        ] {
            assert_eq!(closest(written, &names), expected, "{written}");
        }
        assert_eq!(closest(&"x".repeat(1 << 20), &names), None);
    }
}
