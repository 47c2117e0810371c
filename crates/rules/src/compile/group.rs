//! Which counters may be kept together, and what tells those of different rules apart in memory.

use sha2::{Digest as _, Sha256};

use crate::identifier::Identifier;

/// What a counter of a rule counts.
#[derive(Clone, Copy)]
pub(super) enum Counted {
    Requests,
    /// Those that lead to a ban.
    Refusals,
}

/// Stands for what rules count by and whose they are. A digest, so that the author of one rule cannot choose the group of
/// another's.
pub(super) fn group(counted: Counted, identifiers: &[Identifier], tenant: Option<&str>) -> u64 {
    let mut digest = Sha256::new();
    if let Counted::Refusals = counted {
        // No identifier is empty.
        digest.update([0]);
    }
    for identifier in identifiers {
        digest.update(identifier.to_string());
        digest.update([0]);
    }
    digest.update(tenant.unwrap_or_default());
    first_word(digest)
}

/// Stands for a rule, or what else has counters, in their fingerprints. An operator and an administrator of a tenant may
/// both write rules of one group, so it must take too long to find an id with the digest of another's.
#[must_use]
pub fn rule_digest(id: &str) -> u64 {
    first_word(Sha256::new().chain_update(id))
}

fn first_word(digest: Sha256) -> u64 {
    let digest = digest.finalize();
    digest.iter().take(8).fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenant could choose the id of its rule so that its counters were those of an operator's rule.
    #[test]
    fn rules_by_other_identifiers_or_of_another_tenant_are_another_group() {
        let (user, attribute) = ([Identifier::UserId], [Identifier::Attribute("a".into())]);
        let [both, turned] =
            [[&user, &attribute], [&attribute, &user]].map(|it| it.map(|it| it[0].clone()));
        let group = |identifiers: &[Identifier], tenant: Option<&str>| {
            [Counted::Requests, Counted::Refusals]
                .map(|counted| group(counted, identifiers, tenant))
        };
        let groups = [
            group(&user, None),
            group(&user, Some("zeta")),
            group(&user, Some("acme")),
            group(&attribute, None),
            group(&attribute, Some("zeta")),
            group(&both, None),
            group(&turned, None),
        ];
        assert_eq!(groups[0], group(&user, None));
        let groups = groups.concat();
        for (place, one) in groups.iter().enumerate() {
            assert!(!groups[place + 1..].contains(one), "{groups:?}");
        }
    }
}
