//! How many instructions Redis executes for a check.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tollgate_core::Algorithm;
use tollgate_testbed::Redis;

use super::plan::{Check, Question};
use super::stage::Stage;
use crate::Fallible;
use crate::scale::Scale;

/// How many checks are counted, each of another subject.
const CHECKS: u64 = 4_096;

/// The instructions of Redis for a check of one rule and of three, and for what envoyproxy/ratelimit sends for as many
/// counters.
pub(crate) fn instructions() -> Fallible<Vec<(&'static str, u64)>> {
    let dumps = tempfile::tempdir()?;
    let file = format!("--callgrind-out-file={}/dump", dumps.path().display());
    let redis = Redis::builder().launched_by(&["valgrind", "--tool=callgrind", &file]).start();
    let process = redis.process_id().ok_or("Redis has ended")?;
    let stage = Stage::of(redis, &Scale::QUICK)?;
    let count = |question: &Question| -> Fallible<u64> {
        stage.enter(question, CHECKS)?;
        taken(process, dumps.path())?;
        stage.check_each(question, CHECKS)?;
        Ok(taken(process, dumps.path())? / CHECKS)
    };
    let check = |rules| Question::Check(Check::of(Algorithm::Gcra, rules));
    Ok(vec![
        ("redis/one_rule", count(&check(1))?),
        ("redis/three_rules", count(&check(3))?),
        ("redis/incrby_expire", count(&Question::Pairs(1))?),
        ("redis/incrby_expire_of_three", count(&Question::Pairs(3))?),
    ])
}

/// The instructions since the last call: a dump sets the counts to zero.
fn taken(process: u32, dumps: &Path) -> Fallible<u64> {
    let mut control = Command::new("callgrind_control");
    control.args(["--dump", &process.to_string()]).stdout(Stdio::null());
    if !control.status()?.success() {
        return Err("callgrind does not dump its counts".into());
    }
    let mut total = None;
    for file in fs::read_dir(dumps)? {
        let path = file?.path();
        let text = fs::read_to_string(&path)?;
        let find = |line: &str| line.strip_prefix("totals: ")?.trim().parse().ok();
        total = total.or(text.lines().find_map(find));
        fs::remove_file(path)?;
    }
    total.ok_or_else(|| "a dump has no total".into())
}
