//! The rules of one revision, as fields of a Redis hash.

use std::collections::HashSet;

use tollgate_core::{Micros, Timestamp};

/// The largest length of a rule id.
const MAX_ID_BYTES: usize = 100;
/// The first character of fields that are not rules: no rule id begins with it.
const OTHER: char = '#';
/// How far the epoch of a catalog, which is a time, may be ahead of this node's clock.
const MAX_CLOCK_SKEW: Micros = Micros::from_secs(24 * 60 * 60);
/// More changes than a catalog can ever have.
const MAX_NUMBER: u64 = 1 << 40;
/// The field with the revision.
const REVISION: &str = "#revision";
/// The field with the tiers.
const TIERS: &str = "#tiers";

/// The rules of one revision. Those with a larger epoch are newer, and within an epoch those with a
/// larger number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedRules {
    /// The epoch of the catalog: when it was created, in microseconds since 1970. A new database counts revisions
    /// from one again.
    pub epoch: u64,
    /// The number of the revision within the epoch.
    pub number: u64,
    /// The id of each rule, and the rule as JSON. Sorted by id when read.
    pub rules: Vec<(String, String)>,
    /// All tiers, as JSON.
    pub tiers: String,
}

impl PublishedRules {
    /// Alternating fields and values, without the revision.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        let rules = self.rules.iter().flat_map(|(id, rule)| [id.as_str(), rule.as_str()]);
        [TIERS, &self.tiers].into_iter().chain(rules)
    }

    /// The largest plausible revision at `now`.
    pub(in crate::redis) fn max_revision(now: Timestamp) -> (u64, u64) {
        (now.plus(MAX_CLOCK_SKEW).as_micros(), MAX_NUMBER)
    }

    /// Whether a catalog can have reached this revision by `now`. Other programs may have written anything into
    /// Redis.
    pub(super) fn is_plausible(&self, now: Timestamp) -> bool {
        let (max_epoch, max_number) = Self::max_revision(now);
        self.epoch <= max_epoch && self.number <= max_number
    }

    /// Checks that the rules can be published.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut ids = HashSet::with_capacity(self.rules.len());
        for (id, _) in &self.rules {
            if !is_rule_id(id) {
                return Err(no_rule_id(id));
            }
            if !ids.insert(id) {
                return Err(format!("the rule {id:?} is present twice"));
            }
        }
        Ok(())
    }

    /// Reads the fields of a hash; `None` if there are none.
    pub(super) fn read(fields: Vec<(String, String)>) -> Result<Option<Self>, String> {
        if fields.is_empty() {
            return Ok(None);
        }
        let (mut revision, mut tiers, mut rules) = (None, None, Vec::with_capacity(fields.len()));
        for (field, value) in fields {
            match field.as_str() {
                REVISION => revision = Some(value),
                TIERS => tiers = Some(value),
                // Newer nodes may write more fields.
                _ if field.starts_with(OTHER) => {}
                _ if is_rule_id(&field) => rules.push((field, value)),
                _ => return Err(no_rule_id(&field)),
            }
        }
        let missing = |field: &str| format!("the field {field} is missing");
        let revision = revision.ok_or_else(|| missing(REVISION))?;
        let (epoch, number) = read_revision(&revision).ok_or_else(|| {
            let start = start(&revision);
            format!("{REVISION} is {start:?}; epoch and number are expected, as in 1-27")
        })?;
        rules.sort_unstable();
        Ok(Some(Self { epoch, number, rules, tiers: tiers.ok_or_else(|| missing(TIERS))? }))
    }
}

pub(in crate::redis) fn read_revision(text: &str) -> Option<(u64, u64)> {
    let (epoch, number) = text.split_once('-')?;
    let read = |digits: &str| digits.parse().ok().filter(|_| !digits.starts_with('+'));
    Some((read(epoch)?, read(number)?))
}

fn is_rule_id(text: &str) -> bool {
    let is_known = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
    (1..=MAX_ID_BYTES).contains(&text.len()) && text.bytes().all(is_known)
}

fn no_rule_id(text: &str) -> String {
    let start = start(text);
    format!("{start:?} is not a rule id: 1 to {MAX_ID_BYTES} of a-z, 0-9, _, . and - are expected")
}

/// The start of an unexpected text, for error messages.
fn start(text: &str) -> String {
    text.chars().take(MAX_ID_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn hashes_are_read() {
        let check = |fields: &[(&str, &str)], expected: Result<Option<(u64, u64, usize)>, &str>| {
            let read = PublishedRules::read(owned(fields));
            let read =
                read.map(|read| read.map(|read| (read.epoch, read.number, read.rules.len())));
            match (read, expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{fields:?}"),
                (Err(why), Err(expected)) => {
                    assert!(why.contains(expected) && why.len() < 300, "{why}");
                }
                (read, _) => panic!("{fields:?} was read as {read:?}"),
            }
        };
        let tiers = ("#tiers", "{}");
        check(&[], Ok(None));
        check(&[("#revision", "1-27"), tiers], Ok(Some((1, 27, 0))));
        check(&[("#revision", "0-0"), tiers, ("a.b-c_1", "{}")], Ok(Some((0, 0, 1))));
        let most = u64::MAX;
        check(&[("#revision", &format!("{most}-{most}")), tiers], Ok(Some((most, most, 0))));
        check(&[("#revision", "1-27"), tiers, ("#lists", "[]")], Ok(Some((1, 27, 0))));
        check(&[tiers], Err("#revision is missing"));
        check(&[("#revision", "1-27")], Err("#tiers is missing"));
        let strange = ["", "1", "-", "1-", "-1", "1-2-3", "+1-2", "1-+2", "1- 2", "a-b"];
        let too_large = [format!("1-{most}0"), "9".repeat(1_000)];
        for revision in strange.into_iter().chain(too_large.iter().map(String::as_str)) {
            check(&[("#revision", revision), tiers], Err("as in 1-27"));
        }
        for id in ["", "A", "ä", "a b", &"a".repeat(101)] {
            check(&[("#revision", "1-27"), tiers, (id, "{}")], Err("is not a rule id"));
        }
    }

    #[test]
    fn unreadable_rules_are_not_published() {
        let check = |ids: &[&str], expected: Option<&str>| {
            let rules = ids.iter().map(|id| ((*id).to_owned(), String::new())).collect();
            let published_rules = PublishedRules { rules, ..PublishedRules::default() };
            match (published_rules.check(), expected) {
                (Ok(()), None) => {}
                (Err(why), Some(expected)) => {
                    assert!(why.contains(expected), "{why}");
                }
                (outcome, _) => panic!("{ids:?}: {outcome:?}"),
            }
        };
        check(&[], None);
        check(&["a", "b", &"c".repeat(100)], None);
        check(&["a", "b", "a"], Some("present twice"));
        for id in ["", "#revision", "#tiers", "A", "a\n", &"a".repeat(101)] {
            check(&["a", id], Some("is not a rule id"));
        }
    }
}
