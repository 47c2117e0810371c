//! The limits of files as rules of a policy, to replace the files.
//!
//! A descriptor of Envoy is a request to rules: its domain is the attribute `domain`, and each entry
//! an attribute named like its key. There is no tree any more, so what the tree says has to be said
//! rule by rule:
//!
//! - Where two rules apply and one of them comes first in the tree, it `replaces` the other.
//! - Where the tree leads to no limit at all, the values that lead there are excluded by globs.
//! - What neither of the two can say is noted.

mod conditions;
mod exclusion;
mod limit_path;
pub(super) mod note;
mod obstacle;
mod pattern;
mod rule;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tollgate_rules::document::{PolicyDocument, RuleDocument};

use crate::envoy::EnvoyConfig;
use crate::envoy::limit::FileLimit;
use crate::envoy::to_document::conditions::RuleConditions;
use crate::envoy::to_document::limit_path::{LimitPath, Turn, Ways, turns};
use crate::envoy::to_document::note::{EnvoyLoss, EnvoyNote};
use crate::envoy::to_document::obstacle::obstacle;
use crate::envoy::to_document::pattern::ValuePattern;
use crate::envoy::to_document::rule::rule;
use crate::envoy::tree::TreeLevel;

/// Files as a policy.
#[derive(Clone, Debug)]
pub struct EnvoyImport {
    /// The policy: a rule for each limit that can be one, in the order of the files.
    pub document: PolicyDocument,
    /// What the rules do not say as the files do. Where a limit is not noted, its rule applies to a
    /// descriptor just when the files lead it there, if the descriptor has the keys of one of theirs
    /// and no empty value.
    pub notes: Vec<EnvoyNote>,
}

impl EnvoyConfig {
    /// The limits as rules for descriptors whose domain is the attribute `domain`, and whose entries
    /// are attributes named like their keys.
    #[must_use]
    pub fn to_document(&self) -> EnvoyImport {
        let mut rules = BTreeMap::new();
        let mut notes = BTreeMap::<usize, Vec<EnvoyLoss>>::new();
        let mut has_open_values = false;
        for root in self.domains.values() {
            let domain = Domain::new(root, &self.limits);
            for (place, way) in domain.ways.ways.iter().enumerate() {
                let losses = notes.entry(way.at).or_default();
                if let Some(rule) = domain.rule(place, losses) {
                    rules.insert(way.at, rule);
                    has_open_values |=
                        way.turns.iter().any(|turn| turn.values().covers(ValuePattern::Any));
                }
                lost_remarks(way.limit, losses);
            }
        }
        let general =
            [(!rules.is_empty(), EnvoyLoss::Entries), (has_open_values, EnvoyLoss::EmptyValue)];
        let general = general.into_iter().filter(|(is_so, _)| *is_so);
        let general = general.map(|(_, loss)| EnvoyNote { limit: None, loss });
        let noted = notes.into_iter().flat_map(|(at, losses)| {
            let limit = self.limits.get(at).map(|limit| Arc::clone(&limit.id));
            losses.into_iter().map(move |loss| EnvoyNote { limit: limit.clone(), loss })
        });
        EnvoyImport {
            notes: general.chain(noted).collect(),
            document: PolicyDocument {
                rules: rules.into_values().collect(),
                ..PolicyDocument::default()
            },
        }
    }
}

/// What has nothing to do with matching.
fn lost_remarks(limit: &FileLimit, losses: &mut Vec<EnvoyLoss>) {
    if !limit.replaces.is_empty() {
        losses.push(EnvoyLoss::Replaces(
            limit.replaces.iter().map(|name| Arc::from(&**name)).collect(),
        ));
    }
    if limit.detailed_metric || limit.path.iter().any(|step| step.value_to_metric) {
        losses.push(EnvoyLoss::Metrics);
    }
    if limit.metadata.is_some() {
        losses.push(EnvoyLoss::Metadata);
    }
    if limit.quota {
        losses.push(EnvoyLoss::Quota);
    }
}

/// An entry of which only the values are known that it may have.
struct Step<'a> {
    key: &'a str,
    values: ValuePattern<'a>,
    /// Except these.
    without: Vec<ValuePattern<'a>>,
}

/// One domain on its way into rules.
struct Domain<'a> {
    root: &'a TreeLevel,
    ways: Ways<'a>,
    /// The conditions of each way, or why no rule can be made of it.
    conditions: Vec<Result<RuleConditions<'a>, EnvoyLoss>>,
    /// The indices of the limits that become rules.
    carried: HashSet<usize>,
    /// What each rule replaces, by the places of ways.
    replaces: Vec<Vec<usize>>,
}

impl<'a> Domain<'a> {
    fn new(root: &'a TreeLevel, limits: &'a [FileLimit]) -> Self {
        let ways = Ways::collect(root, limits);
        let obstacles = ways.ways.iter().map(obstacle).collect::<Vec<_>>();
        let carried = ways.ways.iter().zip(&obstacles).filter(|(_, obstacle)| obstacle.is_none());
        let carried = carried.map(|(way, _)| way.at).collect();
        let mut domain = Self { root, ways, conditions: Vec::new(), carried, replaces: Vec::new() };
        let conditions = domain.ways.ways.iter().zip(obstacles).map(|(way, obstacle)| {
            let rivals = |number| domain.rivals_without_limit(way, number);
            obstacle.map_or_else(|| Ok(RuleConditions::new(way, rivals)), Err)
        });
        domain.conditions = conditions.collect();
        domain.replaces = domain.precedence();
        domain.add_replaced_names();
        domain
    }

    /// The rule for a limit, and what it does not say.
    fn rule(&self, place: usize, losses: &mut Vec<EnvoyLoss>) -> Option<RuleDocument> {
        let way = self.ways.ways.get(place)?;
        let conditions = match self.conditions.get(place)? {
            Ok(conditions) => conditions,
            Err(loss) => {
                losses.push(loss.clone());
                return None;
            }
        };
        losses.extend(conditions.not_excluded.iter().map(|(key, values)| EnvoyLoss::Exception {
            key: (*key).into(),
            value: values.text().into(),
        }));
        if way.turns.iter().any(Turn::is_confused) || self.has_joined_cousin(way) {
            losses.push(EnvoyLoss::JoinedNames);
        }
        losses.extend(self.ways.sequences.iter().filter_map(|keys| self.other_depth(way, keys)));
        let replaces = self.replaces.get(place)?.iter().filter_map(|at| self.ways.ways.get(*at));
        let replaces = replaces.map(|way| way.limit.id.to_string()).collect();
        rule(way.limit, conditions, replaces)
    }

    /// Whether descriptors with the keys of another node below the same keys could have the names of this limit:
    /// `a` with the value `b`, and `a_b`.
    fn has_joined_cousin(&self, way: &LimitPath<'a>) -> bool {
        let keys = way.turns.iter().map(Turn::key).collect::<Vec<_>>();
        way.turns.iter().enumerate().any(|(at, turn)| {
            let below_same = self.ways.sequences.iter().filter(|it| it.starts_with(&keys[..at]));
            let mut cousins =
                below_same.filter_map(|it| it.get(at)).filter(|key| **key != keys[at]);
            cousins.any(|key| turn.has_name_of(key))
        })
    }

    /// The values of siblings that lead past this limit, on one turn, and not always to another.
    fn rivals_without_limit(&self, way: &LimitPath<'a>, number: usize) -> Vec<ValuePattern<'a>> {
        let Some(turn) = way.turns.get(number) else { return Vec::new() };
        let rest = way.turns.iter().skip(number + 1);
        let rest =
            rest.map(|turn| Step { key: turn.key(), values: turn.values(), without: vec![] });
        let rest = rest.collect::<Vec<_>>();
        let rivals = turn.rivals().filter(|rival| !self.is_always_counted(rival, &rest));
        rivals.map(|rival| rival.values()).collect()
    }

    /// Whether descriptors that take this turn and then have such values all meet limits that become
    /// rules.
    fn is_always_counted(&self, turn: &Turn<'_>, rest: &[Step<'_>]) -> bool {
        match rest {
            [] => turn.branch.limit.is_some_and(|at| self.carried.contains(&at)),
            rest => self.are_always_counted(&turn.branch.below, rest),
        }
    }

    /// Whether descriptors that have reached a level all meet limits that become rules.
    fn are_always_counted(&self, level: &TreeLevel, steps: &[Step<'_>]) -> bool {
        let Some((Step { key, values, without }, rest)) = steps.split_first() else {
            return false;
        };
        let is_possible = |turn: &Turn<'_>| {
            turn.values().overlaps(*values)
                && !without.iter().any(|without| without.covers(turn.values()))
        };
        let mut turns = turns(level, key).filter(is_possible).collect::<Vec<_>>();
        turns.sort_by_key(Turn::rank);
        for turn in &turns {
            if !self.is_always_counted(turn, rest) {
                return false;
            }
            if turn.values().covers(*values) {
                return true;
            }
        }
        false
    }

    /// What is to be said about descriptors of these keys: the rule applies to them too, if it finds
    /// its own keys among them.
    fn other_depth(&self, way: &LimitPath<'_>, keys: &[&str]) -> Option<EnvoyLoss> {
        if way.keys().eq(keys.iter().copied()) || !way.is_within(keys) {
            return None;
        }
        let names = || keys.iter().map(|key| Arc::from(*key)).collect();
        if keys.iter().all(|key| way.turn_at(key).is_some()) {
            return Some(EnvoyLoss::Order(names()));
        }
        // The values of rivals are theirs, at any depth.
        let steps = keys.iter().map(|key| match way.turn_at(key) {
            Some(turn) => {
                let without = turn.rivals().map(|rival| rival.values()).collect();
                Step { key, values: turn.values(), without }
            }
            None => Step { key, values: ValuePattern::Any, without: Vec::new() },
        });
        let is_replaced = self.are_always_counted(self.root, &steps.collect::<Vec<_>>());
        (!is_replaced).then(|| EnvoyLoss::Deeper(names()))
    }

    /// For each way those it comes before, where both rules could apply.
    fn precedence(&self) -> Vec<Vec<usize>> {
        let ways = || self.ways.ways.iter().zip(&self.conditions).enumerate();
        let replaced_by =
            |(way, conditions): (&LimitPath<'_>, &Result<RuleConditions<'_>, EnvoyLoss>)| {
                let Ok(own) = conditions else { return Vec::new() };
                let replaced = ways().filter(|(_, (other, conditions))| {
                    let Ok(conditions) = conditions else { return false };
                    way.comes_before(other) && may_meet((way, own), (other, conditions))
                });
                replaced.map(|(place, _)| place).collect()
            };
        ways().map(|(_, both)| replaced_by(both)).collect()
    }

    /// Adds what the file says about replacing, as far as no two rules come to replace each other.
    fn add_replaced_names(&mut self) {
        for place in 0..self.replaces.len() {
            let Some(way) = self.ways.ways.get(place) else { continue };
            if !self.carried.contains(&way.at) {
                continue;
            }
            let is_named = |other: &LimitPath<'_>| {
                self.carried.contains(&other.at)
                    && other
                        .limit
                        .name
                        .as_ref()
                        .is_some_and(|name| way.limit.replaces.contains(name))
            };
            let named = self.ways.ways.iter().enumerate().filter(|(_, other)| is_named(other));
            let named = named.map(|(other, _)| other).collect::<Vec<_>>();
            for other in named {
                if !self.reaches(other, place)
                    && let Some(replaced) = self.replaces.get_mut(place)
                    && !replaced.contains(&other)
                {
                    replaced.push(other);
                }
            }
        }
    }

    /// Whether one way replaces the other, at once or by way of those it replaces.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![from];
        while let Some(place) = open.pop() {
            if place == to {
                return true;
            }
            if seen.insert(place) {
                open.extend(self.replaces.get(place).into_iter().flatten());
            }
        }
        false
    }
}

/// Whether the rules of two ways could apply to one descriptor.
fn may_meet(
    (way, own): (&LimitPath<'_>, &RuleConditions<'_>),
    (other, conditions): (&LimitPath<'_>, &RuleConditions<'_>),
) -> bool {
    other.turns.iter().all(|turn| {
        let Some(own_turn) = way.turn_at(turn.key()) else { return true };
        turn.values().overlaps(own_turn.values())
            && !conditions.excludes(own_turn)
            && !own.excludes(turn)
    })
}
