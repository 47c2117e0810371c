//! What the counters of subjects weigh in Redis.

use tollgate_core::Algorithm;

use super::plan::{Check, Question};
use super::stage::Stage;
use crate::Fallible;
use crate::row::{Bar, Row};
use crate::scale::Scale;

/// Units per day of a rule whose counters take more room.
const LARGE_LIMIT: u64 = 1_000_000;

/// Counters of one rule, and of three rules by one subject.
pub(crate) fn bytes_per_subject(scale: &Scale) -> Fallible<Vec<Row>> {
    let subjects = scale.of(200_000);
    let bytes =
        |check: &Check| -> Fallible<f64> { Ok(weight(scale, check, subjects)? / subjects as f64) };
    let row = |algorithm: Algorithm, rules: usize, bar: f64| -> Fallible<Row> {
        let name = format!("redis/bytes_per_subject/{algorithm}/{rules}");
        let bytes = bytes(&Check::of(algorithm, rules))?;
        Ok(Row::figure(name, bytes, " bytes").held_to(Bar::AtMost(bar)))
    };
    let algorithms = [Algorithm::Gcra, Algorithm::FixedWindow, Algorithm::SlidingWindowCounter];
    let one = algorithms.into_iter().map(|algorithm| row(algorithm, 1, 160.0));
    let three = algorithms.into_iter().map(|algorithm| row(algorithm, 3, 240.0));
    // Limits above 65,535 and windows with a fraction of a second have larger entries.
    let large = |rules: usize| -> Fallible<Row> {
        let check = Check { limit: LARGE_LIMIT, ..Check::of(Algorithm::Gcra, rules) };
        let name = format!("redis/bytes_per_subject/gcra_of_a_million/{rules}");
        Ok(Row::figure(name, bytes(&check)?, " bytes"))
    };
    one.chain(three).chain([1, 3].map(large)).collect()
}

/// Ten million clients under three rules each, by a measurement of a million.
pub(crate) fn ten_million(scale: &Scale) -> Fallible<Vec<Row>> {
    let subjects = scale.of(1_000_000);
    let bytes = weight(scale, &Check::of(Algorithm::Gcra, 3), subjects)?;
    let row = Row::figure("redis/10m_clients_3_rules", bytes / subjects as f64 * 10e6 / 1e9, " GB");
    Ok(vec![row.held_to(Bar::AtMost(3.5)).with("measured_clients", subjects as f64)])
}

/// The bytes that Redis takes for the counters of so many subjects, with its tables.
fn weight(scale: &Scale, check: &Check, subjects: u64) -> Fallible<f64> {
    let stage = Stage::single(scale)?;
    let [redis] = stage.nodes() else { return Err("one server was asked for".into()) };
    let used = || -> Fallible<f64> {
        let memory = redis.info("memory");
        Ok(memory.get("used_memory").ok_or("Redis does not say what it uses")?.parse()?)
    };
    let before = used()?;
    stage.enter(&Question::Check(check.clone()), subjects)?;
    let taken = used()? - before;
    let kept = redis.command(&["DBSIZE"]).integer();
    if u64::try_from(kept)? != subjects {
        return Err(format!("{kept} of {subjects} records are left").into());
    }
    Ok(taken)
}
