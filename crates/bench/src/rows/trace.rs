//! A day of requests, always the same one: few clients send most of them, and nights are quiet.

use std::f64::consts::TAU;

use crate::keys::Draw;

const CLIENTS: u32 = 100_000;
const DAY_MILLIS: f64 = 86_400_000.0;
/// How much busier than the average the busiest minute of the day is, and how much quieter the
/// quietest.
const SWING: f64 = 0.8;

/// Requests, ordered by client and then by time: clients do not limit each other, so their
/// order does not matter, and one after the other is easier on the cache.
#[derive(Debug)]
pub(crate) struct Trace(Vec<Arrival>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival {
    client: u32,
    /// Milliseconds since the day began.
    pub(crate) millis: u32,
}

impl Trace {
    pub(crate) fn with_requests(count: u64) -> Self {
        let weights = Weights::new();
        let mut draw = Draw::new(1, u64::MAX);
        let mut arrivals: Vec<Arrival> = (0..count)
            .map(|_| Arrival { client: weights.draw(&mut draw), millis: moment(&mut draw) })
            .collect();
        arrivals.sort_unstable();
        Self(arrivals)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The requests of each client, in order of time.
    pub(crate) fn by_client(&self) -> impl Iterator<Item = &[Arrival]> {
        self.0.chunk_by(|one, next| one.client == next.client)
    }
}

/// A time of the day, likelier at noon than at midnight.
fn moment(draw: &mut Draw) -> u32 {
    loop {
        let part = draw.next_fraction();
        let rate = 1.0 - SWING * (TAU * part).cos();
        if draw.next_fraction() * (1.0 + SWING) < rate {
            return (part * DAY_MILLIS) as u32;
        }
    }
}

/// Zipf's law: the client of rank n sends one n-th of what the first one sends.
struct Weights {
    sums: Vec<f64>,
}

impl Weights {
    fn new() -> Self {
        let mut sum = 0.0;
        let sums = (1..=CLIENTS).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        Self { sums: sums.collect() }
    }

    fn draw(&self, draw: &mut Draw) -> u32 {
        let whole = self.sums.last().copied().unwrap_or_default();
        let point = draw.next_fraction() * whole;
        u32::try_from(self.sums.partition_point(|sum| *sum <= point)).unwrap_or(CLIENTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_client_sends_twice_as_much_as_the_second_and_noon_is_busier_than_midnight() {
        let trace = Trace::with_requests(200_000);
        let sizes: Vec<usize> = trace.by_client().map(<[Arrival]>::len).take(2).collect();
        assert!((1.8..2.2).contains(&(sizes[0] as f64 / sizes[1] as f64)), "{sizes:?}");
        let noon =
            |arrival: &&Arrival| (0.4..0.6).contains(&(f64::from(arrival.millis) / DAY_MILLIS));
        let share = trace.0.iter().filter(noon).count() as f64 / trace.len() as f64;
        assert!((0.32..0.37).contains(&share), "{share}");
    }

    #[test]
    fn every_client_asks_in_order_of_time() {
        let trace = Trace::with_requests(10_000);
        assert_eq!(trace.by_client().map(<[Arrival]>::len).sum::<usize>(), trace.len());
        assert!(trace.by_client().all(|requests| requests.is_sorted_by_key(|one| one.millis)));
    }
}
