//! How much clients needed: their requests within a window, at each request, if no limit had been in force.

use std::collections::BTreeMap;

use tollgate::Policy;
use tollgate::rules::{CompileOptions, Source};
use tollgate_api::RecommendedRule;

use super::RecommendError;
use super::candidate::to_boundless_yaml;
use crate::percent::Percent;
use crate::replay::{ReplayOptions, Stopped, Watch, replay};
use crate::traffic::Traffic;

/// A limit that no client reaches.
const BOUNDLESS: u64 = 1 << 40;

/// How many requests needed how much.
#[derive(Debug, Default)]
pub(super) struct Demand(BTreeMap<u64, u64>);

impl Demand {
    /// The demand that each rule would have met, in their order.
    pub(super) fn measure(
        rules: &[RecommendedRule],
        traffic: &Traffic,
        options: &ReplayOptions,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<Self>, RecommendError> {
        let text = to_boundless_yaml(rules, BOUNDLESS);
        let unbounded = CompileOptions { unbounded_log: true };
        let policy =
            Policy::compile_with(&Source::parse(&text), &unbounded).map_err(|problems| {
                let first = problems.first().map(ToString::to_string).unwrap_or_default();
                let message = format!("the traffic has names that no rule can have: {first}");
                RecommendError::Invalid(message)
            })?;
        let places: Vec<Option<usize>> = policy
            .rules()
            .iter()
            .map(|compiled| rules.iter().position(|rule| *rule.rule_id == *compiled.id))
            .collect();
        let mut demands: Vec<Self> = rules.iter().map(|_| Self::default()).collect();
        let mut replayed = 0;
        replay(policy, traffic, options, |_, decision| {
            watch(replayed)?;
            replayed += 1;
            for outcome in decision.outcomes() {
                let place = places.get(outcome.outcome.rule).copied().flatten();
                if let Some(demand) = place.and_then(|place| demands.get_mut(place)) {
                    let needed = BOUNDLESS.saturating_sub(outcome.outcome.report.remaining);
                    *demand.0.entry(needed).or_default() += 1;
                }
            }
            Ok::<(), Stopped>(())
        })?;
        Ok(demands)
    }

    /// Fills in what all but a share of the requests needed, and what the busiest client did.
    pub(super) fn summarise(&self, rule: &mut RecommendedRule, refused: Percent) {
        rule.busiest = self.0.keys().next_back().copied().unwrap_or(0);
        rule.needed = self.needed(refused);
    }

    /// The least limit above which are at most that share of the requests.
    fn needed(&self, share_above: Percent) -> u64 {
        let mut left = share_above.of(self.0.values().sum());
        for (needed, requests) in self.0.iter().rev() {
            match left.checked_sub(*requests) {
                Some(rest) => left = rest,
                None => return *needed,
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_requests_may_need_more() {
        // 90 requests needed 1, nine needed 5, one needed 100.
        let demand = Demand(BTreeMap::from([(1, 90), (5, 9), (100, 1)]));
        let check = |share: &str, expected: u64| {
            let share = Percent::parse(share, 100).expect("a share");
            assert_eq!(demand.needed(share), expected, "{share}");
        };
        check("0%", 100);
        check("0.9%", 100);
        check("1%", 5);
        check("9.9%", 5);
        check("10%", 1);
        check("100%", 0);
        assert_eq!(Demand::default().needed(Percent::parse("1%", 100).unwrap()), 0);
    }
}
