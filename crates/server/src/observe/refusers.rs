//! Which rule refused most requests of a time, its share, and whether they were of one client, in fixed memory.
//!
//! Counts are exact until more than [`MAX_RULES`] rules refuse; then they are too low, never too high (the summary of
//! Misra and Gries), and a rule with more than a fifth of the refusals is never missing.

use std::sync::Arc;

/// How many rules are counted at a time.
const MAX_RULES: usize = 4;

/// Refusals of a time, by rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusers {
    /// All refusals.
    total: u64,
    rules: Vec<RefusingRule>,
    /// How much any count may be too low.
    may_lack: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RefusingRule {
    /// `None` for the deny list, and for requests that no rule matches.
    rule_id: Option<Arc<str>>,
    count: u64,
    /// The hash of the client, if all these requests were of one.
    client: Option<u64>,
}

/// The rule that refused most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopRefuser<'a> {
    /// `None` for the deny list, and for requests that no rule matches.
    pub(crate) rule_id: Option<&'a str>,
    /// Its share of all refusals, rounded down.
    pub(crate) percent: u64,
    /// Whether the share may be larger.
    pub(crate) is_least: bool,
    /// Whether all that it refused was of one client, as far as that is known.
    pub(crate) is_of_one_client: bool,
}

impl Refusers {
    /// Counts a refusal. `client` is a hash of the client, if it has a name.
    pub(crate) fn count(&mut self, rule_id: Option<&str>, client: Option<u64>) {
        self.total += 1;
        self.add_rule(rule_id, 1, client, || rule_id.map(Arc::from));
    }

    /// Adds the refusals of another time.
    pub(crate) fn add(&mut self, other: &Self) {
        self.total = self.total.saturating_add(other.total);
        self.may_lack += other.may_lack;
        for rule in &other.rules {
            self.add_rule(rule.rule_id.as_deref(), rule.count, rule.client, || {
                rule.rule_id.clone()
            });
        }
    }

    fn add_rule(
        &mut self,
        rule_id: Option<&str>,
        count: u64,
        client: Option<u64>,
        to_owned: impl FnOnce() -> Option<Arc<str>>,
    ) {
        if let Some(known) = self.rules.iter_mut().find(|it| it.rule_id.as_deref() == rule_id) {
            known.count += count;
            known.client = known.client.filter(|it| Some(*it) == client);
            return;
        }
        let mut count = count;
        if self.rules.len() == MAX_RULES {
            let least = self.rules.iter().map(|it| it.count).fold(count, u64::min);
            self.may_lack += least;
            count -= least;
            self.rules.iter_mut().for_each(|it| it.count -= least);
            self.rules.retain(|it| it.count > 0);
        }
        if count > 0 {
            self.rules.push(RefusingRule { rule_id: to_owned(), count, client });
        }
    }

    /// The rule that refused most; `None` without refusals, or if too many rules refused about as much.
    pub(crate) fn top(&self) -> Option<TopRefuser<'_>> {
        let top = self.rules.iter().max_by_key(|it| it.count)?;
        let is_least = self.may_lack > 0;
        Some(TopRefuser {
            rule_id: top.rule_id.as_deref(),
            percent: top.count.saturating_mul(100) / self.total.max(1),
            is_least,
            // What was forgotten of a rule may have been of others.
            is_of_one_client: top.client.is_some() && !is_least,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a model that counts everything, however the time is cut into parts that are added up.
        #[test]
        fn the_top_rule_is_that_of_exact_counts(
            refusals in prop::collection::vec((0_u8..7, 0_u64..3, any::<bool>()), 1..120),
        ) {
            let (mut all, mut part) = (Refusers::default(), Refusers::default());
            let mut exact = BTreeMap::<u8, (u64, BTreeSet<u64>)>::new();
            for (rule, client, ends) in &refusals {
                let name = format!("r{rule}");
                part.count((*rule > 0).then_some(&name), Some(*client));
                let counted = exact.entry(*rule).or_default();
                counted.0 += 1;
                counted.1.insert(*client);
                if *ends {
                    all.add(&std::mem::take(&mut part));
                }
            }
            all.add(&part);
            prop_assert!(all.rules.len() <= MAX_RULES);
            let total = refusals.len() as u64;
            let most = exact.values().map(|it| it.0).max().unwrap_or(0);
            prop_assert!(all.may_lack * (MAX_RULES as u64 + 1) <= total);
            let Some(top) = all.top() else {
                prop_assert!(most * (MAX_RULES as u64 + 1) <= total, "{most} of {total}");
                return Ok(());
            };
            let number = top.rule_id.map_or(0, |id| id[1..].parse().unwrap_or(u8::MAX));
            let (count, clients) = &exact[&number];
            prop_assert!(top.percent <= count * 100 / total, "never too high");
            if !top.is_least {
                prop_assert_eq!(top.percent, most * 100 / total);
                prop_assert_eq!(top.is_of_one_client, clients.len() == 1);
            }
        }
    }

    #[test]
    fn a_client_without_a_name_is_not_one_client() {
        let mut refusers = Refusers::default();
        assert_eq!(refusers.top(), None);
        refusers.count(None, None);
        let top = refusers.top().expect("a refusal");
        assert_eq!((top.rule_id, top.percent, top.is_of_one_client), (None, 100, false));
    }
}
