//! One rule, one key at a time: the price of a check without anything around it.

use std::hint::black_box;
use std::time::Duration;

use throttlecrab::{AdaptiveStore, PeriodicStore, Store};

use crate::Fallible;
use crate::contest::Comparison;
use crate::keys::Walk;
use crate::peers::governor::Governor;
use crate::peers::ours::Ours;
use crate::peers::throttlecrab::Throttlecrab;
use crate::row::{Bar, Row};
use crate::scale::Scale;
use crate::stopwatch::{nanos_per_step, nanos_per_step_side_by_side};

pub(crate) fn against_governor(
    name: &str,
    keys: u64,
    bar: f64,
    scale: &Scale,
) -> Fallible<Vec<Row>> {
    let keys = scale.of(keys);
    let (ours, governor) = (Ours::with_counters(keys)?, Governor::with_counters(keys)?);
    let (mut our_walk, mut their_walk) = (Walk::new(1, keys), Walk::new(1, keys));
    let comparison = Comparison::of(
        scale,
        |turn| net_nanos(turn, |steps| our_walk.take(steps, |key| ours.check(key))),
        |turn| net_nanos(turn, |steps| their_walk.take(steps, |key| governor.check(key))),
    );
    our_walk.expect_all_admitted()?;
    their_walk.expect_all_admitted()?;
    ours.expect_counters(keys)?;
    let row = Row::speedup(name, &comparison).held_to(Bar::AtLeast(bar));
    Ok(vec![row.with("key_ns", key_nanos(scale.turn))])
}

pub(crate) fn against_throttlecrab(scale: &Scale) -> Fallible<Vec<Row>> {
    let mut rows = Vec::new();
    for (keys, label) in [(1_000, "1k"), (1_000_000, "1m"), (10_000_000, "10m")] {
        let keys = scale.of(keys);
        let room = usize::try_from(keys)?;
        let ours = Ours::with_counters(keys)?;
        let periodic = beside(&ours, PeriodicStore::with_capacity(room), keys, scale)?;
        rows.push(Row::speedup(format!("gcra/throttlecrab/periodic/{label}"), &periodic));
        let adaptive = beside(&ours, AdaptiveStore::with_capacity(room), keys, scale)?;
        rows.push(Row::speedup(format!("gcra/throttlecrab/adaptive/{label}"), &adaptive));
    }
    Ok(rows)
}

fn beside(ours: &Ours, store: impl Store, keys: u64, scale: &Scale) -> Fallible<Comparison> {
    let mut peer = Throttlecrab::with_counters(store, keys);
    let (mut our_walk, mut their_walk) = (Walk::new(1, keys), Walk::new(1, keys));
    let comparison = Comparison::of(
        scale,
        |turn| nanos_per_step(turn, |steps| our_walk.take(steps, |key| ours.check(key))),
        |turn| nanos_per_step(turn, |steps| their_walk.take(steps, |key| peer.check(key))),
    );
    our_walk.expect_all_admitted()?;
    their_walk.expect_all_admitted()?;
    Ok(comparison)
}

/// Our own two threads against our own one: the peer is the single thread.
pub(crate) fn two_threads(scale: &Scale) -> Fallible<Vec<Row>> {
    let keys = scale.of(1_000_000);
    let ours = Ours::with_counters(keys)?;
    let mut pair = [Walk::new(1, keys), Walk::new(2, keys)];
    let mut alone = Walk::new(3, keys);
    let comparison = Comparison::of(
        scale,
        |turn| {
            let both = pair
                .iter_mut()
                .map(|walk| |steps| walk.take(steps, |key| ours.check(key)))
                .collect();
            nanos_per_step_side_by_side(turn, both)
        },
        |turn| {
            let one = vec![|steps| alone.take(steps, |key| ours.check(key))];
            nanos_per_step_side_by_side(turn, one)
        },
    );
    for walk in pair.iter().chain([&alone]) {
        walk.expect_all_admitted()?;
    }
    ours.expect_counters(keys)?;
    Ok(vec![Row::speedup("gcra/2_threads", &comparison).held_to(Bar::AtLeast(1.7))])
}

/// What a check takes, without the key: that is the harness at work, not the limiter.
fn net_nanos(turn: Duration, steps: impl FnMut(u32)) -> f64 {
    let gross = nanos_per_step(turn, steps);
    gross - key_nanos(turn / 2)
}

/// What drawing a key and writing its text takes.
fn key_nanos(turn: Duration) -> f64 {
    let mut walk = Walk::new(1, 1_000);
    nanos_per_step(turn, |steps| walk.take(steps, |key| !black_box(key).is_empty()))
}
