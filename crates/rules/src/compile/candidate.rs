//! From the candidate of a rule to a shadow rule beside it.

use tollgate_core::{Limit, Mode, Quota};

use crate::candidate::candidate_id;
use crate::compile::CompileOptions;
use crate::compile::flaw::Flaw;
use crate::compile::quota::compile_quota;
use crate::compile::rule::{Flaws, quota};
use crate::document::{CandidateDocument, RuleDocument};
use crate::limit_from::LimitFrom;
use crate::rule::{Rule, SoftLimit};

/// Shares of a limit that usage never reaches.
const NO_WARNING: SoftLimit = SoftLimit { warn_at: u32::MAX, clear_at: u32::MAX };

/// The limit of a candidate, compiled.
pub(super) struct CandidateLimit {
    quota: Quota,
    limit: Limit,
}

impl CandidateLimit {
    /// Compiles the candidate of a rule. Its limit is that of the rule with the candidate in force, and checked as such.
    pub(super) fn compile(
        document: &RuleDocument,
        options: CompileOptions,
        flaws: &mut Flaws,
    ) -> Option<Self> {
        let (candidate, promoted) = (document.candidate.as_ref()?, document.promoted()?);
        if let Some(flaw) = said_wrong(candidate, &promoted) {
            flaws.add("candidate", flaw);
            return None;
        }
        let mut own = Flaws::default();
        let quota = quota(&promoted, &mut own);
        let limit = compile_quota(quota, options.unbounded_log).map_err(|flaw| own.0.push(flaw));
        if let Some(from) = document.limit_from.as_ref().filter(|_| limit.is_ok()) {
            let carried = LimitFrom::parse(from, &quota, options.unbounded_log);
            own.0.extend(carried.err().map(|flaw| flaw.within("limit_from")));
        }
        let is_valid = own.0.is_empty();
        for Flaw { field, message, advice } in own.0 {
            flaws.add("candidate", Flaw { field: field_of(&field).to_owned(), message, advice });
        }
        limit.ok().filter(|_| is_valid).map(|limit| Self { quota, limit })
    }

    /// The shadow rule that counts what `rule` counts, under this limit. It never refuses, delays, warns or bans, and
    /// replaces no other rule: where it applies, its rule does.
    pub(super) fn beside(self, rule: &Rule) -> Rule {
        Rule {
            id: candidate_id(&rule.id).into(),
            candidate_of: Some(rule.id.clone()),
            quota: self.quota,
            limit: self.limit,
            mode: Mode::Shadow,
            soft: NO_WARNING,
            penalty: None,
            refusal: None,
            ..rule.clone()
        }
    }
}

/// What is wrong with a candidate whatever the figures of its rule.
fn said_wrong(candidate: &CandidateDocument, promoted: &RuleDocument) -> Option<Flaw> {
    let CandidateDocument { window_seconds, window, .. } = candidate;
    if *candidate == CandidateDocument::default() {
        let advice = "give a limit, window, window_seconds, burst or algorithm to try, or leave candidate out";
        return Some(Flaw::new("the candidate changes nothing", advice));
    }
    if window_seconds.is_some() && window.is_some() {
        let flaw = Flaw::new("a candidate has one window", "give window_seconds or window");
        return Some(flaw.within("window"));
    }
    let is_of_calendar = window.as_ref().is_some_and(|it| it.length().is_of_calendar());
    if is_of_calendar && promoted.time_zone.is_none() {
        let message = "such a window begins in the time_zone of its rule, which has none";
        let advice =
            "write a window of one length like 1d, or try it with another rule, action: log_only";
        return Some(Flaw::new(message, advice).within("window"));
    }
    None
}

/// The field of a candidate that stands for a field of the rule it would make; empty for the candidate as a whole.
fn field_of(field: &str) -> &str {
    match field {
        "limit" | "burst" | "algorithm" => field,
        "window_seconds" | "time_zone" => "window",
        // The action is that of the rule; the candidate can only change what does not fit to it.
        "action" => "algorithm",
        "limit_from.ceiling" => "limit",
        _ => "",
    }
}
