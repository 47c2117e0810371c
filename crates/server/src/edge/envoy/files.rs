//! Domains in the files of envoyproxy/ratelimit: matched as in that service, but charged all or nothing.
//!
//! Two behaviours of that service are kept, since callers that charge afterwards rely on them: a peek
//! (no hits) is over the limit when nothing is left, and a single descriptor that costs more than is
//! left takes what is left.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tollgate::{
    Algorithm, CheckTarget, Decision, ExplicitCharge, Mode, Quota, RuleOutcome, Stopwatch,
};
use tollgate_core::Limit;
use tollgate_import::envoy::DescriptorVerdict;

use super::own::DescriptorRequest;
use super::response::{Answer, Status};
use super::source::{CARRIED, FileSet};
use super::{Ask, CarriedLimit};
use crate::app::state::ServerState;
use crate::edge::http::problem::Problem;

type FileCharges<'a> = SmallVec<[ExplicitCharge<'a>; 4]>;

pub(super) async fn check(
    app: &ServerState,
    set: &FileSet,
    ask: &Ask<'_>,
    verdicts: &[DescriptorVerdict],
) -> Result<Answer, Problem> {
    let stopwatch = Stopwatch::start();
    let carried = carried_limits(ask)?;
    let mut lines = FileCharges::new();
    let mut known = HashMap::with_hasher(RandomState::default());
    let mut line_of = SmallVec::<[Option<usize>; 8]>::new();
    for ((verdict, asked), carried) in verdicts.iter().zip(&ask.descriptors).zip(&carried) {
        let (rule_id, counter) = match verdict {
            DescriptorVerdict::Limit { limit, key } => match set.config.limits().get(*limit) {
                Some(limit) => (&*limit.id, key.as_str()),
                None => (CARRIED, key.as_str()),
            },
            DescriptorVerdict::Carried { key } => (CARRIED, key.as_str()),
            DescriptorVerdict::Unmatched
            | DescriptorVerdict::Unlimited
            | DescriptorVerdict::Replaced => {
                line_of.push(None);
                continue;
            }
        };
        let is_alone = verdicts.len() == 1;
        let line =
            if is_alone { 0 } else { *known.entry((rule_id, counter)).or_insert(lines.len()) };
        line_of.push(Some(line));
        match lines.get_mut(line) {
            // The same counter again: it is charged once, with the sum.
            Some(line) => line.cost = line.cost.saturating_add(asked.hits),
            None => {
                let limit = carried.as_ref();
                lines.push(ExplicitCharge { rule_id, limit, counter, cost: asked.hits });
            }
        }
    }
    let (decision, drained) = settle(app, &mut lines).await;
    app.metrics.checks.observe(stopwatch.elapsed());
    let mut outcomes: SmallVec<[Option<RuleOutcome<'_>>; 4]> = SmallVec::new();
    outcomes.resize(lines.len(), None);
    for outcome in decision.outcomes() {
        if let Some(place) = outcomes.get_mut(outcome.subject) {
            *place = Some(outcome);
        }
    }
    let statuses = verdicts.iter().zip(&line_of).map(|(verdict, line)| {
        let outcome = line.and_then(|line| outcomes.get(line)?.as_ref());
        let name = match verdict {
            DescriptorVerdict::Unlimited => return Status::UNLIMITED,
            DescriptorVerdict::Limit { limit, .. } => set.name_of(*limit),
            _ => "",
        };
        outcome.map_or(Status::UNMATCHED, |outcome| Status::of(outcome, name, decision.now()))
    });
    let statuses: Vec<Status> = statuses.collect();
    for ((verdict, asked), status) in verdicts.iter().zip(&ask.descriptors).zip(&statuses) {
        if let DescriptorVerdict::Limit { limit, .. } = verdict {
            set.values.count(*limit, &set.config, &asked.entries, status.is_over);
        }
    }
    let line = decision.binding().map_or(0, |binding| binding.subject);
    let asked = line_of.iter().position(|of| *of == Some(line));
    let asked = asked.and_then(|place| ask.descriptors.get(place));
    let asked = asked.map(|asked| DescriptorRequest { domain: ask.domain, asked });
    let context = |_: &Decision| Some(asked.as_ref()?.context());
    let id = app.checker.record(&decision, ask.recording(), context);
    Ok(Answer::new(app, &decision, drained.as_ref(), statuses, id.as_deref()))
}

/// Returns the decision, and the second decision if the request took what was left.
async fn settle(app: &ServerState, lines: &mut FileCharges<'_>) -> (Decision, Option<Decision>) {
    let limiter = &app.envoy.limiter;
    // Peeks come first: if nothing is left for one, nothing is charged to the others.
    if lines.iter().any(|line| line.cost == 0) && lines.iter().any(|line| line.cost > 0) {
        let looks: FileCharges<'_> = lines.iter().copied().filter(|line| line.cost == 0).collect();
        let looked = limiter.check(CheckTarget::Charges(&looks)).await;
        let is_empty = |outcome: RuleOutcome<'_>| {
            outcome.outcome.report.remaining == 0 && outcome.outcome.mode == Mode::Enforce
        };
        if looked.outcomes().any(is_empty) {
            lines.iter_mut().for_each(|line| line.cost = 0);
        }
    }
    let decision = limiter.check(CheckTarget::Charges(lines)).await;
    if let [line] = &lines[..]
        && let Some(left) = left_by_exceeded(&decision)
    {
        let rest = [ExplicitCharge { cost: left.min(line.cost), ..*line }];
        // The request is in the statistics already. Another request may have taken the rest meanwhile.
        let drained = limiter.check_unrecorded(CheckTarget::Charges(&rest)).await;
        return (decision, Some(drained));
    }
    (decision, None)
}

/// What is left of the only limit, if the request exceeds it and something is left. A limit in shadow
/// mode is drained like an enforced one: a trial has to show what going live would do.
fn left_by_exceeded(decision: &Decision) -> Option<u64> {
    let outcome = decision.outcomes().next().filter(RuleOutcome::is_exceeded)?;
    Some(outcome.outcome.report.remaining).filter(|left| *left > 0)
}

/// The compiled limits that descriptors carry.
fn carried_limits(ask: &Ask<'_>) -> Result<SmallVec<[Option<Limit>; 8]>, Problem> {
    let compile = |(place, carried): (usize, Option<CarriedLimit>)| {
        let Some(CarriedLimit { requests_per_unit, unit: Some(unit) }) = carried else {
            return Ok(None);
        };
        let limit = u64::from(requests_per_unit);
        let compiled = Quota::new(Algorithm::FixedWindow, limit, unit.window()).compile();
        compiled.map(Some).map_err(|error| {
            let detail = format!("descriptors[{place}].limit: {error}");
            Problem::bad_request("invalid_descriptors", detail)
        })
    };
    ask.descriptors.iter().map(|asked| asked.limit).enumerate().map(compile).collect()
}
