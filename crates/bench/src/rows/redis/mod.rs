//! Counters in Redis: what a check costs there, and what Tollgate makes of what it can bear.

pub(crate) mod client;
mod counted;
pub(crate) mod latency;
pub(crate) mod limitador;
pub(crate) mod memory;
pub(crate) mod plan;
mod questions;
mod stage;

use tollgate_core::Algorithm;

use crate::Fallible;
use crate::row::{Bar, Row};
use crate::rows::load::{in_turns, median_of, spread};
use crate::scale::Scale;
use client::Sample;
pub(crate) use counted::instructions;
use plan::{Check, Question};
use stage::Stage;

/// How many checks are under way on a busy node.
const BUSY: usize = 256;
/// How many checks are under way where each is several calls.
const FAIRLY_BUSY: usize = 64;

/// Checks that go together, against one call for each.
pub(crate) fn coalesced(scale: &Scale) -> Fallible<Vec<Row>> {
    let (stage, subjects) = (Stage::single(scale)?, scale.of(100_000));
    let check = Check::of(Algorithm::Gcra, 1);
    let (ours, peer) = (Question::Check(check.clone()), Question::Script(check));
    stage.enter(&ours, subjects)?;
    let drive = |question| stage.drive(question, subjects, BUSY);
    let [ours, peer] = in_turns(scale.rounds, [&|| drive(&ours), &|| drive(&peer)])?;
    let row = times("redis/coalesced", &ours, &peer, |sample| sample.per_second);
    let row = row
        .held_to(Bar::AtLeast(1.5))
        .with("ours_per_second", median_of(&ours, |sample| sample.per_second))
        .with("peer_per_second", median_of(&peer, |sample| sample.per_second))
        .with("ours_redis_us", redis_micros(&ours))
        .with("peer_redis_us", redis_micros(&peer))
        .with("ours_calls", median_of(&ours, |sample| sample.calls))
        .with("peer_calls", median_of(&peer, |sample| sample.calls));
    Ok(vec![row])
}

/// How many calls a check of three rules takes that is not batched with others.
pub(crate) fn three_rules_calls(scale: &Scale) -> Fallible<Vec<Row>> {
    let (stage, subjects) = (Stage::single(scale)?, scale.of(10_000));
    let question = Question::Check(Check::of(Algorithm::Gcra, 3));
    stage.enter(&question, subjects)?;
    let Sample { calls, per_second, redis_micros, .. } = stage.drive(&question, subjects, 1)?;
    let row = Row::figure("redis/three_rules_calls", calls, "").held_to(Bar::AtMost(1.0));
    Ok(vec![row.with("per_second", per_second).with("redis_us", redis_micros)])
}

/// What a check of each algorithm takes of Redis, against a plain `INCR`.
pub(crate) fn cpu(scale: &Scale) -> Fallible<Vec<Row>> {
    let (stage, subjects) = (Stage::single(scale)?, scale.of(100_000));
    let checks = Algorithm::ALL.map(|algorithm| Question::Check(Check::of(algorithm, 1)));
    let [a, b, c, d, e, f] = &checks;
    let all = [a, b, c, d, e, f, &Question::Increment];
    for question in all {
        stage.enter(question, subjects)?;
    }
    let turns = all.map(|question| || stage.drive(question, subjects, BUSY));
    let turns = turns.each_ref().map(|turn| turn as &dyn Fn() -> Fallible<Sample>);
    let [checks @ .., increments] = &in_turns(scale.rounds, turns)?;
    let row = |(algorithm, check): (Algorithm, &Vec<Sample>)| {
        let name = format!("redis/cpu_{algorithm}");
        times(name, check, increments, |sample| sample.redis_micros)
            .with("redis_us", redis_micros(check))
            .with("incr_us", redis_micros(increments))
            .with("per_second", median_of(check, |sample| sample.per_second))
    };
    Ok(Algorithm::ALL.into_iter().zip(checks).map(row).collect())
}

/// What a check takes of Redis, against what envoyproxy/ratelimit sends for as many counters.
pub(crate) fn pairs(scale: &Scale) -> Fallible<Vec<Row>> {
    let (stage, subjects) = (Stage::single(scale)?, scale.of(100_000));
    let row = |name: &str, rules: usize, bar: f64| -> Fallible<Row> {
        let ours = Question::Check(Check::of(Algorithm::Gcra, rules));
        let peer = Question::Pairs(rules);
        stage.enter(&ours, subjects)?;
        stage.enter(&peer, subjects)?;
        let drive = |question| stage.drive(question, subjects, BUSY);
        let [ours, peer] = in_turns(scale.rounds, [&|| drive(&ours), &|| drive(&peer)])?;
        let row = times(name, &ours, &peer, |sample| sample.redis_micros);
        Ok(row
            .held_to(Bar::AtMost(bar))
            .with("ours_redis_us", redis_micros(&ours))
            .with("peer_redis_us", redis_micros(&peer))
            .with("ours_calls", median_of(&ours, |sample| sample.calls)))
    };
    Ok(vec![
        row("redis/one_rule_to_incrby_expire", 1, 1.6)?,
        row("redis/three_rules_to_incrby_expire", 3, 0.8)?,
    ])
}

/// What more rules of a subject add to a check.
pub(crate) fn rules(scale: &Scale) -> Fallible<Vec<Row>> {
    let (stage, subjects) = (Stage::single(scale)?, scale.of(10_000));
    let [one, three, ten] =
        [1, 3, 10].map(|rules| Question::Check(Check::of(Algorithm::Gcra, rules)));
    for question in [&one, &three, &ten] {
        stage.enter(question, subjects)?;
    }
    let drive = |question| stage.drive(question, subjects, BUSY);
    let [one, three, ten] =
        in_turns(scale.rounds, [&|| drive(&one), &|| drive(&three), &|| drive(&ten)])?;
    let row = times("redis/rules_1_to_10", &ten, &one, |sample| sample.redis_micros)
        .with("one_us", redis_micros(&one))
        .with("three_us", redis_micros(&three))
        .with("ten_us", redis_micros(&ten));
    Ok(vec![row])
}

/// How much slower checks of three rules are if these count by three subjects, and not by one, in a
/// cluster.
pub(crate) fn slots(scale: &Scale) -> Fallible<Vec<Row>> {
    let (stage, subjects) = (Stage::cluster(scale)?, scale.of(10_000));
    let [together, apart] = [1, 3]
        .map(|counted_by| Question::Check(Check { counted_by, ..Check::of(Algorithm::Gcra, 3) }));
    stage.enter(&together, subjects)?;
    stage.enter(&apart, subjects)?;
    let row = |name, in_flight| -> Fallible<Row> {
        let drive = |question| stage.drive(question, subjects, in_flight);
        let [together, apart] = in_turns(scale.rounds, [&|| drive(&together), &|| drive(&apart)])?;
        Ok(times(name, &together, &apart, |sample| sample.per_second)
            .with("one_slot_per_second", median_of(&together, |sample| sample.per_second))
            .with("three_slots_per_second", median_of(&apart, |sample| sample.per_second))
            .with("one_slot_redis_us", redis_micros(&together))
            .with("three_slots_redis_us", redis_micros(&apart))
            .with("one_slot_calls", median_of(&together, |sample| sample.calls))
            .with("three_slots_calls", median_of(&apart, |sample| sample.calls)))
    };
    Ok(vec![
        row("redis/slots_1_to_3/one_at_a_time", 1)?,
        row("redis/slots_1_to_3/64_in_flight", FAIRLY_BUSY)?,
    ])
}

/// How often a busy cluster reads from its sockets for a check, if no two checks are of one slot: calls for one server
/// share a round trip, although each is a call of its own.
pub(crate) fn cluster_reads(scale: &Scale) -> Fallible<Vec<Row>> {
    let (stage, subjects) = (Stage::cluster(scale)?, scale.of(100_000));
    let question = Question::Check(Check::of(Algorithm::Gcra, 1));
    stage.enter(&question, subjects)?;
    let drive = |in_flight| stage.drive(&question, subjects, in_flight);
    let [busy, one] = in_turns(scale.rounds, [&|| drive(BUSY), &|| drive(1)])?;
    let reads = |samples: &[Sample]| median_of(samples, |sample| sample.reads);
    Ok(vec![
        Row::figure("redis/cluster_reads_per_check", reads(&busy), "")
            .with("one_at_a_time", reads(&one))
            .with("calls", median_of(&busy, |sample| sample.calls))
            .with("redis_us", redis_micros(&busy))
            .with("one_at_a_time_redis_us", redis_micros(&one))
            .with("per_second", median_of(&busy, |sample| sample.per_second)),
    ])
}

/// How many times a figure of the others is ours, by medians.
fn times(
    name: impl Into<String>,
    ours: &[Sample],
    others: &[Sample],
    figure: impl Fn(&Sample) -> f64 + Copy,
) -> Row {
    let ratio = median_of(ours, figure) / median_of(others, figure);
    let rounds = ours.iter().zip(others).map(|(ours, other)| figure(ours) / figure(other));
    Row { spread: spread(rounds), ..Row::figure(name, ratio, "x") }
}

fn redis_micros(samples: &[Sample]) -> f64 {
    median_of(samples, |sample| sample.redis_micros)
}
