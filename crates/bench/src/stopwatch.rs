//! The only file that reads a clock, which is what a benchmark is for.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How many steps are taken between two reads of the clock.
const STRIDE: u32 = 1024;

/// Runs steps for about `turn` and returns how many nanoseconds of the processor one took. `steps` runs as many as
/// its argument says. Other programs are not counted.
pub(crate) fn nanos_per_step(turn: Duration, steps: impl FnMut(u32)) -> f64 {
    let before = time_on_processor();
    let (taken, elapsed) = run(turn, steps);
    let used = before.zip(time_on_processor()).map(|(before, after)| after - before);
    nanos(used.unwrap_or(elapsed)) / taken
}

/// How many nanoseconds of the processor something takes.
pub(crate) fn nanos_taken(something: impl FnOnce()) -> f64 {
    let (before, start) = (time_on_processor(), Instant::now());
    something();
    let used = before.zip(time_on_processor()).map(|(before, after)| after - before);
    nanos(used.unwrap_or_else(|| start.elapsed()))
}

/// Takes steps on one thread for each of `all_steps`, side by side: nanoseconds that passed per step
/// of all together. Threads that wait for each other lose time here.
pub(crate) fn nanos_per_step_side_by_side(
    turn: Duration,
    all_steps: Vec<impl FnMut(u32) + Send>,
) -> f64 {
    let start_line = Barrier::new(all_steps.len());
    let steps_per_nano: f64 = thread::scope(|scope| {
        let runners: Vec<_> = all_steps
            .into_iter()
            .map(|steps| {
                scope.spawn(|| {
                    start_line.wait();
                    let (taken, elapsed) = run(turn, steps);
                    taken / nanos(elapsed)
                })
            })
            .collect();
        runners.into_iter().filter_map(|runner| runner.join().ok()).sum()
    });
    steps_per_nano.recip()
}

/// The time of day, for peers that take it as an argument.
#[inline]
pub(crate) fn system_time() -> SystemTime {
    SystemTime::now()
}

/// Takes steps for about `turn`; how many, and how long that was.
fn run(turn: Duration, mut steps: impl FnMut(u32)) -> (f64, Duration) {
    let start = Instant::now();
    let mut taken = 0.0;
    loop {
        steps(STRIDE);
        taken += f64::from(STRIDE);
        let elapsed = start.elapsed();
        if elapsed >= turn {
            return (taken, elapsed);
        }
    }
}

/// How long this thread has been on a processor, if the system says so.
fn time_on_processor() -> Option<Duration> {
    // The kernel brings its books up to date when a thread offers to step aside.
    thread::yield_now();
    let books = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    books.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn nanos(span: Duration) -> f64 {
    span.as_secs_f64() * 1e9
}
