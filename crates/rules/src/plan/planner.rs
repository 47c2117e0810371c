//! From requests to a plan: which rules apply, by which keys, at what cost.

use std::hash::BuildHasher;

use smallvec::SmallVec;
use tollgate_core::{Key, Limit, Timestamp};

use crate::attributes::Attributes;
use crate::directory::Directory;
use crate::directory::bans::values_of;
use crate::directory::client::SEPARATOR;
use crate::directory::lists::{Hit, List};
use crate::matching::conditions::Met;
use crate::matching::glob::Glob;
use crate::matching::index::{PlaceMatch, PlaceMatches};
use crate::matching::path::PathCase;
use crate::plan::facts::{EVERYTHING, Facts};
use crate::plan::tier::Tier;
use crate::plan::{Admission, KeySpans, Plan, Planned, Span};
use crate::rule::{PlainRule, Rule};
use crate::ruleset::RuleSet;

/// Plans requests under a policy.
pub(crate) struct Planner<'a, H> {
    pub(crate) rules: &'a RuleSet,
    pub(crate) directory: &'a Directory,
    pub(crate) path_case: PathCase,
    pub(crate) now: Timestamp,
    pub(crate) hasher: &'a H,
}

/// A rule whose conditions a request fulfils.
struct Matched<'a> {
    at: usize,
    rule: &'a Rule,
    endpoint: &'a str,
    /// Missing if the request lacks an identifier and the rule refuses such requests.
    key: Option<KeySpans>,
    met: Met,
}

impl<H: BuildHasher> Planner<'_, H> {
    /// Several subjects are one request: one that is deny-listed refuses it, one that is
    /// allow-listed exempts it.
    pub(crate) fn plan(&self, subjects: &[&dyn Attributes], plan: &mut Plan) {
        for (subject, attributes) in subjects.iter().enumerate() {
            let facts = Facts::new(*attributes, self.path_case);
            match self.directory.listing(&facts, self.now) {
                Some(hit) if hit.list == List::Deny => {
                    *plan = listed(hit);
                    return;
                }
                _ if is_allowed(plan) => {}
                Some(hit) => *plan = listed(hit),
                None => self.add_subject(plan, subject, &facts),
            }
        }
        if subjects.len() > 1 {
            plan.planned.sort_by_key(|planned| planned.rule);
        }
    }

    /// Plans for one rule alone, whatever its conditions: no line if it is switched off or the
    /// request lacks an identifier.
    pub(crate) fn plan_rule(
        &self,
        at: usize,
        rule: &Rule,
        attributes: &dyn Attributes,
        plan: &mut Plan,
    ) {
        let facts = Facts::new(attributes, self.path_case);
        if let Some(hit) = self.directory.listing(&facts, self.now) {
            *plan = listed(hit);
            return;
        }
        note_tier(plan, Tier::of(&facts, self.rules, self.directory));
        let endpoint = rule.endpoint_in(&facts);
        if rule.enabled
            && let Ok((key, met)) = write_key(plan, rule, &facts, endpoint, &Glob::Any)
        {
            let key = Some(key);
            self.add_line(plan, 0, &facts, &Matched { at, rule, endpoint, key, met });
            if let Some((at, rule)) = self.rules.candidate_at(at) {
                self.add_line(plan, 0, &facts, &Matched { at, rule, endpoint, key, met });
            }
        }
    }

    fn add_subject(&self, plan: &mut Plan, subject: usize, facts: &Facts<'_>) {
        let tier = Tier::of(facts, self.rules, self.directory);
        if subject == 0 {
            note_tier(plan, tier);
        }
        let mut places = PlaceMatches::new();
        self.rules.collect(facts, &mut places);
        self.rules.read_ahead(&places);
        if !self.rules.has_replacements() {
            for place in &places {
                if subject == 0 && self.add_plain(plan, facts, place.rule()) {
                    continue;
                }
                if let Some(one) = self.matched(plan, facts, tier.name(), *place) {
                    self.add_line(plan, subject, facts, &one);
                }
            }
            return;
        }
        let mut matched = SmallVec::<[Matched<'_>; 8]>::new();
        for place in &places {
            if let Some(one) = self.matched(plan, facts, tier.name(), *place) {
                matched.push(one);
            }
        }
        // All at once: what a rule replaces does not depend on whether it is replaced itself.
        let mut replaced = SmallVec::<[usize; 8]>::new();
        let replaces = |one: &&Matched<'_>| !one.rule.replaces.is_empty() && one.met == Met::Proven;
        for one in matched.iter().filter(replaces) {
            replaced.extend_from_slice(&one.rule.replaces);
        }
        replaced.sort_unstable();
        for one in matched.iter().filter(|one| replaced.binary_search(&one.at).is_err()) {
            self.add_line(plan, subject, facts, one);
        }
    }

    /// The fast path of nearly every line: a plain rule and a request with its identifier.
    /// `false`: nothing was added. It saves a sixth of a check.
    #[inline]
    fn add_plain(&self, plan: &mut Plan, facts: &Facts<'_>, at: usize) -> bool {
        let Some(rule) = self.rules.get(at) else { return false };
        let Some(PlainRule { cost, identifier, mode }) = rule.plain else { return false };
        let Some(value) = facts.plain_value(identifier) else { return false };
        let start = plan.text.len();
        plan.text.push_value(value.as_bytes());
        let end = plan.text.len();
        let key = KeySpans { subject: Span::new(start..end), rest: Span::new(end..end) };
        let text = key.subject.of(&plan.text);
        let named = Key::of_digest(self.hasher, (&rule.id, rule.digest), text, &[]);
        let fingerprint = named.in_group(rule.group).fingerprint;
        let cost = facts.cost.saturating_mul(cost);
        let own_limit = self.own_limit(rule, facts, EVERYTHING);
        plan.planned.push(Planned {
            rule: at,
            subject: 0,
            own_limit,
            cost,
            mode,
            fingerprint,
            key,
        });
        true
    }

    /// The rule at a place, if the request fulfils the rest of its conditions.
    #[inline]
    fn matched(
        &self,
        plan: &mut Plan,
        facts: &Facts<'_>,
        tier: Option<&str>,
        place: PlaceMatch,
    ) -> Option<Matched<'_>> {
        let rule = self.rules.get(place.rule())?;
        let mut met = rule.conditions.check_detail(facts, tier).ok()?;
        let endpoint = rule.endpoint(place);
        let key = match write_key(plan, rule, facts, endpoint, &rule.key_pattern) {
            Ok((key, Met::Proven)) => Some(key),
            Ok((key, Met::Assumed)) => {
                met = Met::Assumed;
                Some(key)
            }
            Err(NoKey::Missing) if rule.refuses_missing() => None,
            Err(_) => return None,
        };
        Some(Matched { at: place.rule(), rule, endpoint, key, met })
    }

    #[inline(never)]
    fn add_line(&self, plan: &mut Plan, subject: usize, facts: &Facts<'_>, matched: &Matched<'_>) {
        let Matched { at, rule, endpoint, key, .. } = *matched;
        let Some(key) = key else {
            // Waiting does not help against this one, so it is reported rather than a ban.
            if matches!(plan.admission, Admission::Judge | Admission::Banned { .. }) {
                plan.admission = Admission::Missing { rule: at };
            }
            return;
        };
        if rule.penalty.is_some() {
            self.note_ban(plan, at, rule, key);
        }
        self.push_line(plan, subject, facts, (at, rule, endpoint), key);
    }

    #[inline(always)]
    fn push_line(
        &self,
        plan: &mut Plan,
        subject: usize,
        facts: &Facts<'_>,
        (at, rule, endpoint): (usize, &Rule, &str),
        key: KeySpans,
    ) {
        let (subject_text, rest) = (key.subject.of(&plan.text), key.rest.of(&plan.text));
        let named = (&*rule.id, rule.digest);
        let key_of_rule = Key::of_digest(self.hasher, named, subject_text, rest);
        let fingerprint = key_of_rule.in_group(rule.group).fingerprint;
        let cost = rule.cost(facts);
        if subject > 0
            && let Some(line) = plan.line_of(at, fingerprint, key)
        {
            line.cost = line.cost.saturating_add(cost);
            return;
        }
        let own_limit = self.own_limit(rule, facts, endpoint);
        let mode = rule.mode;
        plan.planned.push(Planned { rule: at, subject, own_limit, cost, mode, fingerprint, key });
    }

    /// The limit of this client alone, if it has one.
    #[inline]
    fn own_limit(&self, rule: &Rule, facts: &Facts<'_>, endpoint: &str) -> Option<Box<Limit>> {
        let exception = self.directory.exception(rule, facts, endpoint, self.now);
        rule.own_limit(exception.map(|(exception, _)| exception), facts).map(Box::new)
    }

    /// Nothing is counted for a client that a rule has banned.
    #[cold]
    fn note_ban(&self, plan: &mut Plan, at: usize, rule: &Rule, key: KeySpans) {
        let values = values_of(key.subject.of(&plan.text), key.rest.of(&plan.text));
        let Some(until) = self.directory.banned_until(rule, values, self.now) else { return };
        let is_decisive = match plan.admission {
            Admission::Judge => true,
            Admission::Banned { until: known, .. } => until > known,
            Admission::Allowed { .. }
            | Admission::Denied { .. }
            | Admission::Missing { .. }
            | Admission::Unmatched => false,
        };
        if is_decisive {
            plan.admission = Admission::Banned { rule: at, until };
        }
    }
}

fn listed(hit: Hit<'_>) -> Plan {
    let reason = hit.listing.reason.clone();
    let admission = match hit.list {
        List::Allow => Admission::Allowed { reason },
        List::Deny => Admission::Denied { reason, expires_at: hit.listing.expires_at },
    };
    Plan { admission, ..Plan::default() }
}

fn is_allowed(plan: &Plan) -> bool {
    matches!(plan.admission, Admission::Allowed { .. })
}

fn note_tier(plan: &mut Plan, tier: Tier<'_>) {
    if let Some(name) = tier.name() {
        let start = plan.text.len();
        plan.text.push(name.as_bytes());
        plan.tier = Some(Span::new(start..plan.text.len()));
    }
}

/// Why a request has no key under a rule.
enum NoKey {
    Missing,
    OtherPattern,
}

/// Writes the values of the rule's identifiers to the text of the plan.
fn write_key(
    plan: &mut Plan,
    rule: &Rule,
    facts: &Facts<'_>,
    endpoint: &str,
    pattern: &Glob,
) -> Result<(KeySpans, Met), NoKey> {
    let mut met = Met::Proven;
    let start = plan.text.len();
    let mut after_first = start;
    for (position, identifier) in rule.identifiers.iter().enumerate() {
        let Some(value) = facts.value(identifier, endpoint) else {
            plan.text.truncate(start);
            return Err(NoKey::Missing);
        };
        if position > 1 {
            plan.text.push(&[SEPARATOR]);
        }
        plan.text.push_value(value.as_bytes());
        if position == 0 {
            after_first = plan.text.len();
            match matches_pattern(pattern, value, facts) {
                Some(true) => {}
                None => met = Met::Assumed,
                Some(false) => {
                    plan.text.truncate(start);
                    return Err(NoKey::OtherPattern);
                }
            }
        }
    }
    let rest = Span::new(after_first..plan.text.len());
    Ok((KeySpans { subject: Span::new(start..after_first), rest }, met))
}

/// Whether a value matches the `key_pattern` of a rule; `None` if that takes too many steps.
pub(crate) fn matches_pattern(pattern: &Glob, value: &str, facts: &Facts<'_>) -> Option<bool> {
    match pattern {
        Glob::Any => Some(true),
        pattern => facts.glob_work.run(value, |steps| pattern.matches(value, steps)),
    }
}
