//! Bounds the number of bans: in all, by rules of tenants, by one tenant, by one rule. So no rule and no tenant takes
//! the places of others.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_rules::{Directory, Rule, RuleSet};

/// The most bans at a time.
pub(super) const MAX_BANS: usize = 100_000;
/// Of these, the most by rules that belong to a tenant. The others are for rules without one.
pub(super) const MAX_BANS_OF_TENANTS: usize = 50_000;
/// The most by all rules of one tenant.
pub(super) const MAX_BANS_PER_TENANT: usize = 10_000;

/// Counts bans against the bounds.
#[derive(Debug, Default)]
pub(super) struct BanBounds {
    total: usize,
    of_tenants: usize,
    by_tenant: HashMap<Arc<str>, usize>,
    by_rule: HashMap<Arc<str>, usize>,
}

impl BanBounds {
    /// Counts existing bans.
    pub(super) fn new(rules: &RuleSet, directory: &Directory) -> Self {
        let mut room = Self { total: directory.bans(), ..Self::default() };
        for (rule_id, count) in directory.bans_by_rule() {
            room.by_rule.insert(Arc::clone(rule_id), count);
            if let Some(tenant) = rules.find(rule_id).and_then(|rule| rule.tenant.as_ref()) {
                *room.by_tenant.entry(Arc::clone(tenant)).or_default() += count;
                room.of_tenants += count;
            }
        }
        room
    }

    /// Counts one more ban by a rule, unless a bound is reached. One rule may have as many bans as there are free
    /// places: half of all if it is alone, and less the more others have.
    pub(super) fn take(&mut self, rule_id: &Arc<str>, rule: Option<&Rule>) -> bool {
        let free = MAX_BANS.saturating_sub(self.total);
        let own = self.by_rule.get(rule_id).copied().unwrap_or(0);
        if own >= free {
            return false;
        }
        if let Some(tenant) = rule.and_then(|rule| rule.tenant.as_ref()) {
            let of_tenant = self.by_tenant.entry(Arc::clone(tenant)).or_default();
            if *of_tenant >= MAX_BANS_PER_TENANT || self.of_tenants >= MAX_BANS_OF_TENANTS {
                return false;
            }
            *of_tenant += 1;
            self.of_tenants += 1;
        }
        *self.by_rule.entry(Arc::clone(rule_id)).or_default() += 1;
        self.total += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tollgate_rules::{Policy, Source};

    const RULES: &str = "
rules:
- {rule_id: login, limit: 1, window: 1m, identifier_type: ip}
- {rule_id: other, limit: 1, window: 1m, identifier_type: ip}
- {rule_id: shop, limit: 1, window: 1m, identifier_type: ip, tenant: acme}
- {rule_id: cart, limit: 1, window: 1m, identifier_type: ip, tenant: acme}
";

    fn fill(room: &mut BanBounds, policy: &Policy, rule_id: &str) -> usize {
        let (rule_id, rule) = (Arc::from(rule_id), policy.rules().find(rule_id));
        (0..MAX_BANS + 1).take_while(|_| room.take(&rule_id, rule)).count()
    }

    #[test]
    fn no_rule_and_no_tenant_takes_the_places_of_others() {
        let policy = Policy::compile(&Source::parse(RULES)).expect("a policy");
        let mut room = BanBounds::new(policy.rules(), policy.directory());
        assert_eq!(fill(&mut room, &policy, "shop"), MAX_BANS_PER_TENANT);
        assert_eq!(fill(&mut room, &policy, "cart"), 0, "rules of a tenant share its places");
        assert_eq!(fill(&mut room, &policy, "login"), 45_000);
        assert_eq!(fill(&mut room, &policy, "other"), 22_500, "another rule still finds room");
        assert_eq!(fill(&mut room, &policy, "login"), 0);
    }

    #[test]
    fn tenants_together_leave_half_of_the_places() {
        let rules: String = (0..60)
            .map(|at| {
                format!("- {{rule_id: r{at}, limit: 1, window: 1m, identifier_type: ip, tenant: t{at}}}\n")
            })
            .collect();
        let policy =
            Policy::compile(&Source::parse(&format!("rules:\n{rules}"))).expect("a policy");
        let mut room = BanBounds::new(policy.rules(), policy.directory());
        let made: usize = (0..60).map(|at| fill(&mut room, &policy, &format!("r{at}"))).sum();
        assert_eq!(made, MAX_BANS_OF_TENANTS);
        assert_eq!(fill(&mut room, &policy, "login"), 25_000);
    }
}
