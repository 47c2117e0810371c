//! What a shared store adds to the time of a check, while it is available and while it is not.

use tollgate_testbed::Redis;

use super::stage::{pin, pin_apart};
use crate::Fallible;
use crate::row::{Bar, Row};
use crate::rows::http::HttpStage;
use crate::rows::http::latency::added;
use crate::rows::server::Server;
use crate::scale::Scale;

/// Counters in Redis, against counters in memory: Redis on a processor of its own, and on that of Tollgate.
pub(crate) fn latency(scale: &Scale) -> Fallible<Vec<Row>> {
    let stage = HttpStage::new(scale)?;
    let row = |name, pin: fn(&Redis) -> Fallible<()>| {
        let redis = Redis::start();
        pin(&redis)?;
        against_memory(name, &stage, &with_store(&stage, &redis)?, 0.0)
    };
    let apart = row("redis/latency", pin_apart)?.held_to(Bar::Below(1.0));
    Ok(vec![apart, row("redis/latency_on_one_processor", pin)?])
}

/// Counters in an unreachable Redis, against counters in memory.
pub(crate) fn away(scale: &Scale) -> Fallible<Vec<Row>> {
    let (stage, redis) = (HttpStage::new(scale)?, Redis::start());
    let ours = with_store(&stage, &redis)?;
    // The first requests find that out, long before those that are timed.
    redis.kill();
    Ok(vec![against_memory("redis/away", &stage, &ours, 1.0)?.held_to(Bar::Below(1.0))])
}

fn with_store(stage: &HttpStage, redis: &Redis) -> Fallible<Server> {
    stage.ours(&["--store".as_ref(), redis.url().as_ref()])
}

fn against_memory(name: &str, stage: &HttpStage, ours: &Server, degraded: f64) -> Fallible<Row> {
    let memory = stage.ours(&["--store".as_ref(), "memory:".as_ref()])?;
    added(name, stage, ours, &memory, degraded)
}
