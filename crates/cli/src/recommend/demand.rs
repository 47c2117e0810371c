//! How much clients needed: their requests within a window, at each request, if no limit had been in force.

use std::collections::BTreeMap;

use tollgate::Policy;
use tollgate::rules::{CompileOptions, Source};
use tollgate::store::StoreUrl;

use super::candidate::{Candidate, to_boundless_yaml};
use crate::failure::Failure;
use crate::percent::Percent;
use crate::simulate::replay;
use crate::traffic::Traffic;

/// A limit that no client reaches.
const BOUNDLESS: u64 = 1 << 40;

/// How many requests needed how much.
#[derive(Debug, Default)]
pub(super) struct Demand(BTreeMap<u64, u64>);

impl Demand {
    /// The demand that each candidate would have met, in their order.
    pub(super) fn measure(
        candidates: &[Candidate],
        traffic: &Traffic,
        window: &str,
    ) -> Result<Vec<Self>, Failure> {
        let text = to_boundless_yaml(candidates, window, BOUNDLESS);
        let options = CompileOptions { unbounded_log: true };
        let policy = Policy::compile_with(&Source::parse(&text), &options).map_err(|problems| {
            let first = problems.first().map(ToString::to_string).unwrap_or_default();
            Failure::usage(format!("the traffic has names that no rule can have: {first}"))
        })?;
        let places: Vec<Option<usize>> = policy
            .rules()
            .iter()
            .map(|rule| candidates.iter().position(|candidate| *candidate.rule_id == *rule.id))
            .collect();
        let mut demands: Vec<Self> = candidates.iter().map(|_| Self::default()).collect();
        replay(policy, traffic, &StoreUrl::default(), |_, decision| -> Result<(), Failure> {
            for outcome in decision.outcomes() {
                let place = places.get(outcome.outcome.rule).copied().flatten();
                if let Some(demand) = place.and_then(|place| demands.get_mut(place)) {
                    let needed = BOUNDLESS.saturating_sub(outcome.outcome.report.remaining);
                    *demand.0.entry(needed).or_default() += 1;
                }
            }
            Ok(())
        })?;
        Ok(demands)
    }

    /// Fills in what all but a share of the requests needed, and what the busiest client did.
    pub(super) fn summarise(&self, candidate: &mut Candidate, refused: Percent) {
        candidate.busiest = self.0.keys().next_back().copied().unwrap_or(0);
        candidate.needed = self.needed(refused);
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
