//! Many keys in one call: what overlapping the trips to memory is worth.

use tollgate_core::ChargeResult;

use crate::Fallible;
use crate::contest::Comparison;
use crate::keys::Walk;
use crate::peers::governor::Governor;
use crate::peers::ours::Ours;
use crate::row::{Bar, Row};
use crate::scale::Scale;
use crate::stopwatch::nanos_per_step;

pub(crate) fn against_governor(scale: &Scale) -> Fallible<Vec<Row>> {
    let keys = scale.of(10_000_000);
    let (ours, governor) = (Ours::with_counters(keys)?, Governor::with_counters(keys)?);
    let rows = vec![
        batches_of::<16>("batch/16", &ours, &governor, keys, scale)?,
        batches_of::<64>("batch/64", &ours, &governor, keys, scale)?,
    ];
    ours.expect_counters(keys)?;
    Ok(rows)
}

fn batches_of<const SIZE: usize>(
    name: &str,
    ours: &Ours,
    governor: &Governor,
    keys: u64,
    scale: &Scale,
) -> Fallible<Row> {
    let mut lines = [ChargeResult::default(); SIZE];
    let mut batches = Walk::new(1, keys);
    let mut walk = Walk::new(1, keys);
    let comparison = Comparison::of(
        scale,
        |turn| {
            nanos_per_step(turn, |steps| {
                batches.take_batches(steps, |keys| ours.check_each::<SIZE>(keys, &mut lines));
            })
        },
        |turn| nanos_per_step(turn, |steps| walk.take(steps, |key| governor.check(key))),
    );
    batches.expect_all_admitted()?;
    walk.expect_all_admitted()?;
    Ok(Row::speedup(name, &comparison).held_to(Bar::AtLeast(6.0)))
}
