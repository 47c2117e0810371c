//! The globs that an attribute of a request may match: one of them is enough.

use crate::matching::glob::Glob;
use crate::matching::steps::Steps;

/// A list of globs, in any order. Values without wildcards are looked up, not scanned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Globs {
    /// Sorted.
    exact: Box<[Box<str>]>,
    /// The cheapest first.
    others: Box<[Glob]>,
}

impl Globs {
    pub(crate) fn new(globs: Vec<Glob>) -> Self {
        let (mut exact, mut others) = (Vec::new(), Vec::new());
        for glob in globs {
            match glob {
                Glob::Exact(text) => exact.push(text),
                other => others.push(other),
            }
        }
        exact.sort_unstable();
        exact.dedup();
        others.sort_by_key(|glob| match glob {
            Glob::Any => 0,
            Glob::Exact(_) | Glob::Prefix(_) => 1,
            Glob::Fixed(_) => 2,
            Glob::Starred { middle, .. } => 3 + middle.len(),
        });
        Self { exact: exact.into(), others: others.into() }
    }

    /// Whether the value matches one of the globs. `None` if finding out takes more than the steps
    /// left.
    pub(crate) fn matches(&self, value: &str, steps: &mut Steps) -> Option<bool> {
        if self.exact.binary_search_by(|text| (**text).cmp(value)).is_ok() {
            return Some(true);
        }
        for glob in &self.others {
            if glob.matches(value, steps)? {
                return Some(true);
            }
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(texts: &[&str]) -> Globs {
        Globs::new(texts.iter().map(|text| Glob::parse(text).expect("a valid glob")).collect())
    }

    #[test]
    fn one_of_the_globs_is_enough() {
        let globs = globs(&["b", "*x*", "a", "p*", "b"]);
        for (value, expected) in
            [("a", true), ("b", true), ("pq", true), ("axb", true), ("c", false)]
        {
            let found = globs.matches(value, &mut Steps::unlimited());
            assert_eq!(found, Some(expected), "{value}");
        }
    }
}
