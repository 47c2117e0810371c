//! What is known of single clients: their tiers, their exceptions, whether they are listed or banned.
//!
//! A directory never changes. A copy with changes shares everything they did not touch, so that
//! millions of entries can be kept up to date one by one.

pub(crate) mod bans;
pub(crate) mod by_kind;
pub(crate) mod client;
pub(crate) mod expiry;
pub(crate) mod lists;
pub(crate) mod overrides;
pub(crate) mod table;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use tollgate_core::{Key, Mode, Timestamp};
use tollgate_document::Problem;

use crate::compile::flaw::Flaw;
use crate::compile::no_such_rule;
use crate::compile::quota::compile_quota;
use crate::directory::bans::{Bans, Digest, Subject, values_of};
use crate::directory::by_kind::ByKind;
use crate::directory::client::{Client, IdentifierSet};
use crate::directory::lists::{ClientLists, Hit, List, Listed, Listing};
use crate::directory::overrides::Override;
use crate::document::{ClientDocument, ListDocument, OverrideDocument};
use crate::plan::facts::{EVERYTHING, Facts};
use crate::rule::Rule;
use crate::ruleset::RuleSet;

/// Tiers, overrides, lists and bans of all clients.
#[derive(Clone, Default)]
pub struct Directory {
    tiers: ByKind<Option<Arc<str>>>,
    overrides: ByKind<Arc<[Override]>>,
    lists: ClientLists,
    bans: Bans,
}

/// One difference between two directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryChange {
    /// The client is in this tier from now on.
    SetTier {
        /// Who.
        client: Client,
        /// The tier.
        tier: Arc<str>,
    },
    /// The directory has no tier for the client any more.
    RemoveTier {
        /// Who.
        client: Client,
    },
    /// The client gets this exception; it takes the place of an earlier one from the same rule.
    SetOverride {
        /// Who.
        client: Client,
        /// The exception.
        exception: Override,
    },
    /// The client gets no exception from this rule any more.
    RemoveOverride {
        /// Who.
        client: Client,
        /// The rule.
        rule_id: Arc<str>,
    },
    /// The client or network is on this list from now on; an earlier entry is replaced.
    List {
        /// Who.
        listed: Listed,
        /// Which list.
        list: List,
        /// Why, and how long.
        listing: Listing,
    },
    /// The client or network is off this list.
    Unlist {
        /// Who.
        listed: Listed,
        /// Which list.
        list: List,
    },
    /// The rule refuses the client until then; an earlier ban is replaced. It means something only
    /// while the rule has a penalty.
    Ban {
        /// The rule.
        rule_id: Arc<str>,
        /// Who, as the rule counts.
        subject: Subject,
        /// When the ban ends.
        until: Timestamp,
    },
    /// The ban of the client by the rule is lifted.
    Unban {
        /// The rule.
        rule_id: Arc<str>,
        /// Who, as the rule counts.
        subject: Subject,
    },
    /// All bans by the rule are lifted.
    UnbanAll {
        /// The rule.
        rule_id: Arc<str>,
    },
}

#[derive(PartialEq, Eq, Hash)]
enum Target<'a> {
    Tier(&'a Client),
    Override(&'a Client, &'a str),
    List(&'a Listed, List),
    Ban(&'a str, &'a Subject),
    Bans(&'a str),
}

impl DirectoryChange {
    /// Puts a client into a tier.
    ///
    /// # Errors
    /// What is wrong with the document, with its field as path.
    pub fn tier(document: &ClientDocument, rules: &RuleSet) -> Result<Self, Problem> {
        Self::parse_tier(document, rules).map_err(Problem::from)
    }

    /// Grants a client an exception from a rule.
    ///
    /// # Errors
    /// What is wrong with the document, with its field as path.
    pub fn exception(document: &OverrideDocument, rules: &RuleSet) -> Result<Self, Problem> {
        Self::parse_exception(document, rules).map_err(Problem::from)
    }

    /// Puts a client or a network on a list.
    ///
    /// # Errors
    /// What is wrong with the document, with its field as path.
    pub fn list(list: List, document: &ListDocument) -> Result<Self, Problem> {
        Self::parse_list(list, document).map_err(Problem::from)
    }

    /// Takes a client or a network off a list.
    ///
    /// # Errors
    /// What is wrong with the identifiers, with their field as path.
    pub fn unlist<T: AsRef<str>>(list: List, types: &[T], values: &[T]) -> Result<Self, Problem> {
        Ok(Self::Unlist { listed: Listed::parse(types, values)?, list })
    }

    pub(crate) fn parse_tier(document: &ClientDocument, rules: &RuleSet) -> Result<Self, Flaw> {
        let client = Client::parse(&document.identifier_type, &document.identifier)?;
        if !client.is_named() {
            let message = "a tier belongs to a client, not to what it asks for";
            let advice = "name the client by user_id, api_key, tenant or ip";
            return Err(Flaw::new(message, advice).within("identifier_type"));
        }
        let tier = rules.tier(&document.tier).map_err(|flaw| flaw.within("tier"))?;
        Ok(Self::SetTier { client, tier })
    }

    pub(crate) fn parse_exception(
        document: &OverrideDocument,
        rules: &RuleSet,
    ) -> Result<Self, Flaw> {
        let client = Client::parse(&document.identifier_type, &document.identifier)?;
        let exception = Override::parse(document)?;
        let Some(at) = rules.index_of(&document.rule_id) else {
            return Err(no_such_rule(&document.rule_id).within("rule_id"));
        };
        let rule = rules.get(at).map(|rule| &rule.quota);
        for quota in rule.into_iter().chain(rules.candidate_at(at).map(|(_, it)| &it.quota)) {
            compile_quota(exception.applied_to(quota), false)?;
        }
        Ok(Self::SetOverride { client, exception })
    }

    /// What is changed: two changes of the same thing contradict each other.
    pub(crate) fn target(&self) -> impl Hash + Eq {
        match self {
            Self::SetTier { client, .. } | Self::RemoveTier { client } => Target::Tier(client),
            Self::SetOverride { client, exception } => Target::Override(client, &exception.rule_id),
            Self::RemoveOverride { client, rule_id } => Target::Override(client, rule_id),
            Self::List { listed, list, .. } | Self::Unlist { listed, list } => {
                Target::List(listed, *list)
            }
            Self::Ban { rule_id, subject, .. } | Self::Unban { rule_id, subject } => {
                Target::Ban(rule_id, subject)
            }
            Self::UnbanAll { rule_id } => Target::Bans(rule_id),
        }
    }

    pub(crate) fn parse_list(list: List, document: &ListDocument) -> Result<Self, Flaw> {
        let listed = Listed::parse(&document.identifier_type, &document.identifier)?;
        Ok(Self::List { listed, list, listing: Listing::parse(document)? })
    }
}

impl Directory {
    /// A directory with these changes made, in order. Only what they touch is copied.
    #[must_use]
    pub fn apply(&self, changes: impl IntoIterator<Item = DirectoryChange>) -> Self {
        let mut next = self.clone();
        next.extend(changes);
        next
    }

    /// Makes these changes here, in order. Copies of this directory stay as they are.
    pub fn extend(&mut self, changes: impl IntoIterator<Item = DirectoryChange>) {
        changes.into_iter().for_each(|change| self.change(change));
    }

    /// How many clients have a tier, how many have exceptions, and how many entries the lists have.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.tiers.len(), self.overrides.len(), self.lists.len())
    }

    /// The same directory, in which secrets of bans are kept as digests. For one that has no bans yet.
    #[must_use]
    pub fn with_digest(mut self, digest: Digest) -> Self {
        self.bans.digest = Some(digest);
        self
    }

    /// How many bans there are, those that have ended included.
    #[must_use]
    pub fn bans(&self) -> usize {
        self.bans.len()
    }

    /// How many bans each rule has, those that have ended included.
    pub fn bans_by_rule(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.bans.by_rule()
    }

    /// How many bans a rule has, those that have ended included.
    #[must_use]
    pub fn bans_of_rule(&self, rule_id: &str) -> usize {
        self.bans.len_of(rule_id)
    }

    /// The clients that a rule has banned. Looks at all bans.
    #[must_use]
    pub fn banned_by(&self, rule_id: &str) -> Vec<Subject> {
        self.bans.subjects_of(rule_id)
    }

    /// How many bans have not ended.
    #[must_use]
    pub fn bans_in_force(&self, now: Timestamp) -> usize {
        self.bans.in_force(now)
    }

    /// When the ban of a client by a rule ends, or has ended; `None` if there is none.
    #[must_use]
    pub fn ban_end(&self, rule_id: &str, subject: &Subject) -> Option<Timestamp> {
        self.bans.end(rule_id, subject)
    }

    /// The client whose counter under a rule has this key, in the form in which bans name it.
    #[must_use]
    pub fn subject_of(&self, rule: &Rule, key: &Key<'_>) -> Subject {
        self.bans.subject(&rule.identifiers, values_of(key.subject, key.rest))
    }

    /// The client that people write as these values, in the form in which bans name it.
    ///
    /// # Errors
    /// What is wrong with the values.
    pub fn parse_subject<T: AsRef<str>>(
        &self,
        rule: &Rule,
        values: &[T],
    ) -> Result<Subject, Problem> {
        let parsed = self.bans.parse_subject(rule, values);
        parsed.map_err(|flaw| Problem::from(flaw.within("identifier")))
    }

    fn change(&mut self, change: DirectoryChange) {
        match change {
            DirectoryChange::SetTier { client, tier } => {
                self.tiers.change(client, |own| *own = Some(tier));
            }
            DirectoryChange::RemoveTier { client } => self.tiers.change(client, |own| *own = None),
            DirectoryChange::SetOverride { client, exception } => {
                self.overrides.change(client, |own| {
                    let others = own.iter().filter(|other| other.rule_id != exception.rule_id);
                    *own = others.cloned().chain([exception.clone()]).collect();
                });
            }
            DirectoryChange::RemoveOverride { client, rule_id } => {
                self.overrides.change(client, |own| {
                    *own = own.iter().filter(|other| other.rule_id != rule_id).cloned().collect();
                });
            }
            DirectoryChange::List { listed, list, listing } => {
                self.lists.set(listed, list, Some(listing));
            }
            DirectoryChange::Unlist { listed, list } => self.lists.set(listed, list, None),
            DirectoryChange::Ban { rule_id, subject, until } => {
                self.bans.set(&rule_id, &subject, Some(until));
            }
            DirectoryChange::Unban { rule_id, subject } => self.bans.set(&rule_id, &subject, None),
            DirectoryChange::UnbanAll { rule_id } => self.bans.remove_rule(&rule_id),
        }
    }

    /// The tier of the client, and what it was found by.
    pub(crate) fn tier(&self, facts: &Facts<'_>) -> Option<(&str, &IdentifierSet)> {
        if self.tiers.is_empty() {
            return None;
        }
        let mut found = self.tiers.find(facts, EVERYTHING, |_| true);
        found.find_map(|(kind, tier)| Some((tier.as_deref()?, kind)))
    }

    /// The exception from a rule that a client has, and what it was found by. The whole key comes
    /// first, then smaller parts of it, then single identifiers in the order of the rule.
    #[inline]
    pub(crate) fn exception(
        &self,
        rule: &Rule,
        facts: &Facts<'_>,
        endpoint: &str,
        now: Timestamp,
    ) -> Option<(&Override, &IdentifierSet)> {
        if self.overrides.is_empty() {
            return None;
        }
        self.find_exception(rule, facts, endpoint, now)
    }

    fn find_exception(
        &self,
        rule: &Rule,
        facts: &Facts<'_>,
        endpoint: &str,
        now: Timestamp,
    ) -> Option<(&Override, &IdentifierSet)> {
        let parts =
            |kind: &IdentifierSet| kind.is_composite() && kind.is_part_of(&rule.identifiers);
        let composite = self.overrides.find(facts, endpoint, parts).rev();
        let single = rule.identifiers.iter().flat_map(|identifier| {
            self.overrides.find(facts, endpoint, |kind| kind.is(identifier))
        });
        composite.chain(single).find_map(|(kind, own)| {
            let counts =
                |own: &&Override| own.rule_id == *rule.written_id() && own.is_in_force(now);
            Some((own.iter().find(counts)?, kind))
        })
    }

    /// When the next exception from a rule begins that a client will have, if one will.
    pub(crate) fn next_exception(
        &self,
        rule: &Rule,
        facts: &Facts<'_>,
        endpoint: &str,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let found = self.overrides.find(facts, endpoint, |kind| kind.is_part_of(&rule.identifiers));
        let own = found.flat_map(|(_, own)| own.iter());
        let own = own.filter(|own| own.rule_id == *rule.written_id());
        own.filter_map(|own| own.starts_at).filter(|start| *start > now).min()
    }

    /// The list entry that decides about a request.
    #[inline]
    pub(crate) fn listing(&self, facts: &Facts<'_>, now: Timestamp) -> Option<Hit<'_>> {
        if self.lists.is_empty() { None } else { self.lists.find(facts, now) }
    }

    /// Until when a rule refuses the client with these values of its identifiers, if it does: only a
    /// rule that refuses requests bans, and only while it has a penalty.
    pub(crate) fn banned_until<'v>(
        &self,
        rule: &Rule,
        values: impl Iterator<Item = &'v [u8]>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if rule.penalty.is_none() || rule.mode != Mode::Enforce {
            return None;
        }
        self.bans.until(rule, values, now)
    }
}

/// Identifiers may be secrets (an API key is one), and there may be millions of them.
impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tiers, overrides, listed) = self.sizes();
        let bans = self.bans();
        write!(f, "Directory({tiers} tiers, {overrides} overrides, {listed} listed, {bans} bans)")
    }
}
