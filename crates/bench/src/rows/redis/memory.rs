//! What the counters of subjects weigh in Redis.

use tollgate_core::Algorithm;

use super::plan::{Check, Question};
use super::stage::Stage;
use crate::Fallible;
use crate::row::{Bar, Row};
use crate::scale::Scale;

/// Counters of one rule, and of three rules by one subject.
pub(crate) fn bytes_per_subject(scale: &Scale) -> Fallible<Vec<Row>> {
    let subjects = scale.of(200_000);
    let row = |algorithm: Algorithm, rules: usize, bar: f64| -> Fallible<Row> {
        let bytes = weight(scale, algorithm, rules, subjects)? / subjects as f64;
        let name = format!("redis/bytes_per_subject/{algorithm}/{rules}");
        Ok(Row::figure(name, bytes, " bytes").held_to(Bar::AtMost(bar)))
    };
    let algorithms = [Algorithm::Gcra, Algorithm::FixedWindow, Algorithm::SlidingWindowCounter];
    let one = algorithms.into_iter().map(|algorithm| row(algorithm, 1, 160.0));
    let three = algorithms.into_iter().map(|algorithm| row(algorithm, 3, 240.0));
    one.chain(three).collect()
}

/// Ten million clients under three rules each, by a measurement of a million.
pub(crate) fn ten_million(scale: &Scale) -> Fallible<Vec<Row>> {
    let subjects = scale.of(1_000_000);
    let bytes = weight(scale, Algorithm::Gcra, 3, subjects)?;
    let row = Row::figure("redis/10m_clients_3_rules", bytes / subjects as f64 * 10e6 / 1e9, " GB");
    Ok(vec![row.held_to(Bar::AtMost(3.5)).with("measured_clients", subjects as f64)])
}

/// The bytes that Redis takes for the counters of so many subjects, with its tables.
fn weight(scale: &Scale, algorithm: Algorithm, rules: usize, subjects: u64) -> Fallible<f64> {
    let stage = Stage::single(scale)?;
    let [redis] = stage.nodes() else { return Err("one server was asked for".into()) };
    let used = || -> Fallible<f64> {
        let memory = redis.info("memory");
        Ok(memory.get("used_memory").ok_or("Redis does not say what it uses")?.parse()?)
    };
    let before = used()?;
    stage.enter(&Question::Check(Check::of(algorithm, rules)), subjects)?;
    let taken = used()? - before;
    let kept = redis.command(&["DBSIZE"]).integer();
    if u64::try_from(kept)? != subjects {
        return Err(format!("{kept} of {subjects} records are left").into());
    }
    Ok(taken)
}
