//! Domains in the files of envoyproxy/ratelimit: matched as in that service, but charged all or nothing.
//! Peeks, and what a single descriptor takes that costs more than is left, are in [`super::overrun`].

use std::collections::HashMap;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tollgate::{
    Algorithm, CheckTarget, Decision, ExplicitCharge, Quota, RuleOutcome, Stopwatch, Store as _,
};
use tollgate_core::Limit;
use tollgate_import::envoy::{Allowance, DescriptorVerdict};

use super::file_set::FileSet;
use super::overrun::{self, OverLimits, exceeded_peeks, is_used_up, overrun};
use super::own::DescriptorRequest;
use super::quota::Quotas;
use super::response::{Answer, Status};
use super::source::CARRIED;
use super::{Ask, CarriedLimit};
use crate::app::state::ServerState;
use crate::check::checker::Recording;
use crate::edge::http::problem::Problem;
use crate::observe::audit_log::RequestContext;
use crate::observe::metrics::RequestOutcome;

/// What descriptors carry: a limit as it was sent, and compiled.
pub(super) type CarriedQuotas = SmallVec<[Option<(Quota, Limit)>; 8]>;

/// The counters that a request charges.
pub(super) type FileCharges<'a> = SmallVec<[ExplicitCharge<'a>; 4]>;

pub(super) async fn check(
    app: &ServerState,
    set: &FileSet,
    ask: &Ask<'_>,
    verdicts: &[DescriptorVerdict],
) -> Result<Answer, Problem> {
    let stopwatch = Stopwatch::start();
    let carried = carried_limits(ask)?;
    let carried_keys = carried_keys(verdicts, &carried);
    let mut lines = FileCharges::new();
    let mut known = HashMap::with_hasher(RandomState::default());
    let mut line_of = SmallVec::<[Option<usize>; 8]>::new();
    let mut limit_of = SmallVec::<[Option<usize>; 4]>::new();
    // The first descriptor of each charge.
    let mut place_of = SmallVec::<[usize; 4]>::new();
    for (place, (verdict, asked)) in verdicts.iter().zip(&ask.descriptors).enumerate() {
        let (file_limit, counter) = match verdict {
            DescriptorVerdict::Limit { limit, key } => (Some(*limit), key.as_str()),
            DescriptorVerdict::Carried { .. } => (None, carried_keys[place].as_str()),
            DescriptorVerdict::Unmatched
            | DescriptorVerdict::Unlimited
            | DescriptorVerdict::Replaced => {
                line_of.push(None);
                continue;
            }
        };
        let rule_id = set.limit(file_limit).map_or(CARRIED, |limit| &*limit.id);
        let is_alone = verdicts.len() == 1;
        let line =
            if is_alone { 0 } else { *known.entry((rule_id, counter)).or_insert(lines.len()) };
        line_of.push(Some(line));
        match lines.get_mut(line) {
            // The same counter again: it is charged once, with the sum.
            Some(line) => line.cost = line.cost.saturating_add(asked.hits),
            None => {
                let limit = carried[place].as_ref().map(|(_, limit)| limit);
                limit_of.push(file_limit);
                place_of.push(line_of.len() - 1);
                lines.push(ExplicitCharge { rule_id, limit, counter, cost: asked.hits });
            }
        }
    }
    let larger = |line: usize| -> Option<Limit> {
        match set.limit(*limit_of.get(line)?).map(|limit| &limit.allowance) {
            Some(Allowance::Limited { quota, .. }) => overrun::larger(quota),
            Some(Allowance::Unlimited) => None,
            None => overrun::larger(&carried.get(*place_of.get(line)?)?.as_ref()?.0),
        }
    };
    let is_quota = |line: usize| {
        let limit = limit_of.get(line).and_then(|limit| set.limit(*limit));
        limit.is_some_and(|limit| limit.quota && !limit.shadow)
    };
    let quotas = Quotas::of(ask, &place_of, is_quota);
    // A descriptor that is replaced or unlimited matches too, although it charges nothing.
    let is_unmatched =
        |verdict: &DescriptorVerdict| matches!(verdict, DescriptorVerdict::Unmatched);
    let settled = if verdicts.iter().all(is_unmatched) {
        let decision = app.envoy.limiter.check(CheckTarget::Views(&[])).await;
        (decision, None, SmallVec::new())
    } else {
        settle(app, set, &mut lines, &limit_of, &larger, &quotas).await
    };
    let (decision, drained, over_peeks) = settled;
    app.metrics.checks.observe(stopwatch.elapsed());
    let mut outcomes: SmallVec<[Option<RuleOutcome<'_>>; 4]> = SmallVec::new();
    outcomes.resize(lines.len(), None);
    for outcome in decision.outcomes() {
        if let Some(place) = outcomes.get_mut(outcome.subject) {
            *place = Some(outcome);
        }
    }
    // No limit matches, and such requests are refused.
    let unmatched =
        Status { is_over: !decision.is_allowed() && lines.is_empty(), ..Status::UNMATCHED };
    let statuses = verdicts.iter().zip(&line_of).map(|(verdict, line)| {
        let outcome = line.and_then(|line| outcomes.get(line)?.as_ref());
        let name = match verdict {
            DescriptorVerdict::Unlimited => return Status::UNLIMITED,
            DescriptorVerdict::Limit { limit, .. } => set.name_of(*limit),
            _ => "",
        };
        let is_over_peek =
            line.and_then(|line| over_peeks.get(line)).is_some_and(|is_over| *is_over);
        outcome.map_or_else(
            // Of a refusal from the deny cache only one outcome is known.
            || Status { is_over: unmatched.is_over || is_over_peek, ..unmatched.clone() },
            |outcome| Status::of(&decision, outcome, name, outcome.is_exceeded() || is_over_peek),
        )
    });
    let statuses: Vec<Status> = statuses.collect();
    let is_status_over = |place: &usize| statuses.get(*place).is_some_and(|status| status.is_over);
    let exceeded: SmallVec<[bool; 4]> = place_of.iter().map(is_status_over).collect();
    let mut enforced =
        exceeded.iter().enumerate().filter(|(line, _)| quotas.group(*line).is_none());
    let is_over = !decision.is_allowed()
        || enforced.any(|(_, is_exceeded)| *is_exceeded)
        || quotas.are_all_exceeded(&exceeded);
    let has_left = |line: usize| match quotas.group(line) {
        Some(group) => !quotas.is_group_exceeded(group, &exceeded),
        None => !exceeded[line],
    };
    let limits_left = (0..lines.len()).filter(|line| has_left(*line));
    let metadata = set.metadata_of(limits_left.filter_map(|line| limit_of[line]));
    for ((verdict, asked), status) in verdicts.iter().zip(&ask.descriptors).zip(&statuses) {
        if let DescriptorVerdict::Limit { limit, .. } = verdict {
            set.values.count(*limit, &set.config, &asked.entries, status.is_over);
        }
    }
    let line = decision.binding().map_or(0, |binding| binding.subject);
    let asked = place_of.get(line).and_then(|place| ask.descriptors.get(*place));
    let asked = asked.map(|asked| DescriptorRequest { domain: ask.domain, asked });
    let context =
        |_: &Decision| Some(RequestContext { is_by_policy: false, ..asked.as_ref()?.context() });
    let recording = ask.recording();
    // Quotas that are exceeded do not refuse a request that another one admits.
    let outcome = match RequestOutcome::of(recording.entry, &decision) {
        RequestOutcome::Refused if !is_over => RequestOutcome::Allowed,
        outcome => outcome,
    };
    let recording = Recording { outcome: Some(outcome), ..recording };
    let id = app.checker.record(&decision, recording, context);
    let next_after = |line: usize| outcomes[line].as_ref()?.outcome.report.next_after;
    let refill = quotas.wait(&exceeded, next_after);
    let drained = drained.as_ref();
    let answer = Answer::new(app, &decision, drained, statuses, is_over, refill, id.as_deref());
    Ok(Answer { metadata, ..answer })
}

/// Returns the decision; the second decision if the request took what was left; and which charges are
/// peeks that found their counters over the limit.
async fn settle(
    app: &ServerState,
    set: &FileSet,
    lines: &mut FileCharges<'_>,
    limit_of: &[Option<usize>],
    larger: &(impl Fn(usize) -> Option<Limit> + Sync),
    quotas: &Quotas<'_>,
) -> (Decision, Option<Decision>, SmallVec<[bool; 4]>) {
    let limiter = &app.envoy.limiter;
    let larger_limits = |count: usize| (0..count).map(larger).collect::<OverLimits>();
    let has_peeks = lines.iter().any(|line| line.cost == 0);
    let mut over_peeks = SmallVec::new();
    // Peeks come first: if one is over its limit, nothing is charged to the others.
    if has_peeks && (!quotas.is_empty() || lines.iter().any(|line| line.cost > 0)) {
        over_peeks = exceeded_peeks(app, lines, &larger_limits(lines.len())).await;
    }
    if !quotas.is_empty() {
        quotas.leave_out_exceeded(app, lines, &mut over_peeks).await;
    }
    let is_refusing = |(line, limit): (usize, &Option<usize>)| {
        let is_over = over_peeks.get(line).is_some_and(|is_over| *is_over);
        let is_shadow = set.limit(*limit).is_some_and(|limit| limit.shadow);
        is_over && lines[line].cost == 0 && !is_shadow && quotas.group(line).is_none()
    };
    if limit_of.iter().enumerate().any(is_refusing) {
        lines.iter_mut().for_each(|line| line.cost = 0);
    }
    let decision = limiter.check(CheckTarget::Charges(lines)).await;
    if has_peeks {
        for (_, limit) in lines.iter().zip(limit_of).filter(|(line, _)| line.cost == 0) {
            set.note_peek(*limit);
        }
        if over_peeks.is_empty() && decision.outcomes().any(|outcome| is_used_up(&outcome)) {
            over_peeks = exceeded_peeks(app, lines, &larger_limits(lines.len())).await;
        }
    }
    let mut drained = None;
    if let ([line], [limit]) = (&lines[..], limit_of)
        && line.cost > 0
        && decision.outcomes().any(|outcome| outcome.is_exceeded())
    {
        // The peeks of a shared counter may reach other nodes.
        let is_peeked = limiter.store().is_shared() || set.is_peeked(*limit);
        drained = overrun(app, &decision, line, larger(0).as_ref(), is_peeked).await;
    }
    (decision, drained, over_peeks)
}

/// The counters of carried limits, in the order of the descriptors. Those of different units are different ones, or they
/// would replace each other. Empty for other descriptors.
pub(super) fn carried_keys(verdicts: &[DescriptorVerdict], carried: &CarriedQuotas) -> Vec<String> {
    let keys = verdicts.iter().zip(carried).map(|it| match it {
        (DescriptorVerdict::Carried { key }, Some((quota, _))) => {
            format!("{}:{}", quota.window.get(), key.as_str())
        }
        _ => String::new(),
    });
    keys.collect()
}

/// The limits that descriptors carry, as they were sent and compiled.
pub(super) fn carried_limits(ask: &Ask<'_>) -> Result<CarriedQuotas, Problem> {
    let compile = |(place, carried): (usize, Option<CarriedLimit>)| {
        let Some(CarriedLimit { requests_per_unit, unit: Some(unit) }) = carried else {
            return Ok(None);
        };
        let limit = u64::from(requests_per_unit);
        let quota = Quota::new(Algorithm::FixedWindow, limit, unit.window());
        quota.compile().map(|limit| Some((quota, limit))).map_err(|error| {
            let detail = format!("descriptors[{place}].limit: {error}");
            Problem::bad_request("invalid_descriptors", detail)
        })
    };
    ask.descriptors.iter().map(|asked| asked.limit).enumerate().map(compile).collect()
}
