//! What a shared store adds to the time of a check, while it is available and while it is not.

use tollgate_testbed::Redis;

use super::stage::pin;
use crate::Fallible;
use crate::row::{Bar, Row};
use crate::rows::http::HttpStage;
use crate::rows::http::latency::added;
use crate::rows::server::Server;
use crate::scale::Scale;

/// Counters in Redis, against counters in memory.
pub(crate) fn latency(scale: &Scale) -> Fallible<Vec<Row>> {
    let (stage, redis) = (HttpStage::new(scale)?, Redis::start());
    pin(&redis)?;
    against_memory("redis/latency", &stage, &with_store(&stage, &redis)?, 0.0)
}

/// Counters in an unreachable Redis, against counters in memory.
pub(crate) fn away(scale: &Scale) -> Fallible<Vec<Row>> {
    let (stage, redis) = (HttpStage::new(scale)?, Redis::start());
    let ours = with_store(&stage, &redis)?;
    // The first requests find that out, long before those that are timed.
    redis.kill();
    against_memory("redis/away", &stage, &ours, 1.0)
}

fn with_store(stage: &HttpStage, redis: &Redis) -> Fallible<Server> {
    stage.ours(&["--store".as_ref(), redis.url().as_ref()])
}

fn against_memory(
    name: &str,
    stage: &HttpStage,
    ours: &Server,
    degraded: f64,
) -> Fallible<Vec<Row>> {
    let memory = stage.ours(&["--store".as_ref(), "memory:".as_ref()])?;
    Ok(vec![added(name, stage, ours, &memory, degraded)?.held_to(Bar::Below(1.0))])
}
