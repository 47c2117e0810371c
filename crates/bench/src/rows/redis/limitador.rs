//! What a check takes of Redis, against limitador with counters in Redis. limitador is a separate program, which
//! `scripts/bench-peers` builds.

use std::path::{Path, PathBuf};

use tollgate_core::Algorithm;

use super::plan::{Check, Question};
use super::stage::Stage;
use super::{BUSY, redis_micros, times};
use crate::Fallible;
use crate::process::ask;
use crate::row::{Bar, Row};
use crate::rows::load::in_turns;
use crate::rows::redis::client::Sample;
use crate::rows::server::{CLIENT_CORE, WORKSPACE, pinned};
use crate::scale::Scale;

/// One rule, and three rules of one subject: windows, which is what limitador counts by.
pub(crate) fn against_limitador(scale: &Scale) -> Fallible<Vec<Row>> {
    let Some(limitador) = LimitadorProgram::find(scale) else {
        eprintln!("left out: scripts/bench-peers brings limitador-redis");
        return Ok(Vec::new());
    };
    let (stage, subjects) = (Stage::single(scale)?, scale.of(100_000));
    let row = |name: &str, rules: usize| -> Fallible<Row> {
        let ours = Question::Check(Check::of(Algorithm::FixedWindow, rules));
        stage.enter(&ours, subjects)?;
        limitador.drive(&stage, rules, subjects, 0)?;
        let [ours, peer] = in_turns(
            scale.rounds,
            [&|| stage.drive(&ours, subjects, BUSY), &|| {
                limitador.drive(&stage, rules, subjects, limitador.turn_millis)
            }],
        )?;
        Ok(times(name, &ours, &peer, |sample| sample.redis_micros)
            .held_to(Bar::AtMost(0.5))
            .with("ours_redis_us", redis_micros(&ours))
            .with("peer_redis_us", redis_micros(&peer)))
    };
    Ok(vec![row("redis/one_rule_to_limitador", 1)?, row("redis/three_rules_to_limitador", 3)?])
}

/// The program that checks with limitador.
struct LimitadorProgram {
    program: PathBuf,
    turn_millis: u128,
}

impl LimitadorProgram {
    fn find(scale: &Scale) -> Option<Self> {
        let program = Path::new(WORKSPACE).join("target/peers/bin/limitador-redis");
        program.exists().then(|| Self { program, turn_millis: (scale.turn * 2).as_millis() })
    }

    /// Checks subjects at random for that time, or each once.
    fn drive(&self, stage: &Stage, rules: usize, subjects: u64, millis: u128) -> Fallible<Sample> {
        let [redis] = stage.nodes() else { return Err("one server was asked for".into()) };
        let processor_seconds = || -> Fallible<f64> {
            let cpu = redis.info("cpu");
            let seconds = |name: &str| -> Fallible<f64> {
                Ok(cpu.get(name).ok_or("Redis does not say how busy it was")?.parse()?)
            };
            Ok(seconds("used_cpu_user")? + seconds("used_cpu_sys")?)
        };
        let before = processor_seconds()?;
        let mut client = pinned(CLIENT_CORE, &self.program);
        client.arg(redis.url());
        client.args([rules.to_string(), subjects.to_string(), BUSY.to_string()]);
        let [checks] = ask(client.arg(millis.to_string()))?[..] else {
            return Err("limitador-redis prints how many checks it made".into());
        };
        let redis_micros = (processor_seconds()? - before) / checks * 1e6;
        let per_second = checks / (millis as f64 / 1e3);
        Ok(Sample { per_second, redis_micros, calls: f64::NAN, reads: f64::NAN })
    }
}
