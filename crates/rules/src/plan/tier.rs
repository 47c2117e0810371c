//! Which tier a request is in.

use crate::attributes::Attribute;
use crate::directory::Directory;
use crate::directory::client::IdentifierSet;
use crate::plan::facts::Facts;
use crate::ruleset::RuleSet;

/// The tier of a request and where it comes from.
///
/// The directory comes before what the request itself brings: an operator's change takes effect at
/// once, while a token with a tier in it lives on until it expires.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tier<'a> {
    /// The directory has the client in this tier.
    Directory(&'a str, &'a IdentifierSet),
    /// The request brought it.
    Request(&'a str),
    /// Neither the directory nor the request names a tier.
    Default(&'a str),
    /// Neither of them names a tier, and there is no default.
    None,
}

impl<'a> Tier<'a> {
    pub(crate) fn of(facts: &'a Facts<'_>, rules: &'a RuleSet, directory: &'a Directory) -> Self {
        let known = |tier: &str| rules.is_tier(tier);
        if let Some((tier, kind)) = directory.tier(facts).filter(|(tier, _)| known(tier)) {
            return Self::Directory(tier, kind);
        }
        if let Some(tier) = facts.get(Attribute::Tier).filter(|tier| known(tier)) {
            return Self::Request(tier);
        }
        rules.default_tier().map_or(Self::None, Self::Default)
    }

    pub(crate) fn name(self) -> Option<&'a str> {
        match self {
            Self::Directory(tier, _) | Self::Request(tier) | Self::Default(tier) => Some(tier),
            Self::None => None,
        }
    }
}
