//! A layer with all places taken, by the real clock.

use std::convert::Infallible;

use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tollgate::{Clock as _, Micros, Request, SystemClock, Timestamp};
use tollgate_testbed::{WAIT_TIMEOUT, until};

use crate::gate::{Answer, Gate};
use crate::lateness::{Floor, Lateness};
use crate::{HELD, memory, run_alone, threads};

/// 5,000 requests a second, one every 200 us.
const POLICY: &str = "
rules:
  - rule_id: paced
    limit: 5000
    window: 1s
    burst: 50000
    identifier_type: global
    algorithm: leaky_bucket
    action: throttle
    throttle: {max_delay_ms: 30000}
";
const SPACING: Micros = Micros::new(200);
/// Units charged before the first request, so that all requests arrive before one leaves: 3 s.
const CHARGED_BEFORE: usize = 15_000;
/// Every tenth client disconnects.
const LEAVERS: usize = HELD / 10;
/// A request, what the layer keeps of it, and the task it is in.
const MAX_BYTES_EACH: usize = 4096;
/// Timers of the runtime count whole milliseconds, rounded up, and the operating system wakes it by
/// whole milliseconds too: a request is 1 ms late on average and about 2 ms at worst, if no other
/// process wants the processor.
const LATE: u64 = 2_000;
/// On a busy machine, bare timers on the same threads are late as well, and the layer may add this.
const LATER_THAN_TIMERS: u64 = 1_000;
/// A layer that keeps the threads busy makes bare timers late, too. On any machine that can run tests,
/// half of all are less late than this.
const LATE_IN_THE_MEDIAN: u64 = 20_000;
/// A layer that is late is late every time; a machine that is busy is not.
const ROUNDS: usize = 3;
/// The limiter uses the wall clock, timers a monotonic one. They drift apart by less than this.
const DRIFT: Micros = Micros::new(1_000);

/// When the request of that number may go.
#[derive(Clone, Copy)]
struct Schedule {
    first: Timestamp,
}

impl Schedule {
    fn turn(self, number: usize) -> Timestamp {
        self.first.plus(Micros::new(SPACING.get() * number as u64))
    }
}

fn leaves(number: usize) -> bool {
    number < HELD && number % (HELD / LEAVERS) == 5
}

/// Requests that have come to a layer, and when each may go.
struct Crowd {
    gate: Gate<SystemClock>,
    schedule: Schedule,
    sent: Vec<JoinHandle<Result<Answer, Infallible>>>,
}

impl Crowd {
    fn new() -> Self {
        let gate = Gate::new(POLICY, SystemClock, HELD);
        let ahead = gate.layer.limiter().check(&Request::new().cost(CHARGED_BEFORE as u64)).now();
        assert_eq!((ahead.is_allowed(), ahead.delay()), (true, Some(Micros::ZERO)));
        let first = ahead.now().plus(Micros::new(SPACING.get() * CHARGED_BEFORE as u64));
        Self { gate, schedule: Schedule { first }, sent: Vec::with_capacity(2 * HELD) }
    }

    /// So many more come, one after the other, and wait.
    async fn come(&mut self, more: usize) {
        for _ in 0..more {
            let number = self.sent.len();
            let held = self.gate.judged(number).await.unwrap_or_else(|answer| {
                panic!("number {number} is not held, but answered {}", answer.status())
            });
            self.sent.push(tokio::spawn(held));
        }
    }

    /// One more than there are places is refused at once, with a clear answer.
    async fn refuse(&self) {
        let turn = self.schedule.turn(self.sent.len());
        let seconds = |now: Timestamp| turn.since(now).as_secs_ceil();
        let most = seconds(SystemClock.now());
        let answer = self.gate.judged(usize::MAX).await.map(drop).expect_err("no place");
        let least = seconds(SystemClock.now());
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        let wait = answer.headers()["retry-after"].to_str().expect("a text");
        let wait: u64 = wait.parse().expect("seconds");
        assert!((least..=most).contains(&wait), "{wait} s, but {turn:?} is in {least} to {most} s");
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        let body = String::from_utf8_lossy(&body);
        assert!(body.contains("\"violated-policies\":[\"paced\"]"), "{body}");
    }

    /// Some leave, and their places are free.
    fn leave(&self) {
        let leavers = self.sent.iter().enumerate().filter(|(number, _)| leaves(*number));
        leavers.for_each(|(_, sent)| sent.abort());
        until("places", || (self.gate.layer.delayed() == HELD - LEAVERS).then_some(()));
    }

    /// Waits for all requests that were not cancelled: each once, none before its turn. Returns how late
    /// they were, and how many were overtaken by one whose turn came later by more than the resolution
    /// of timers.
    async fn go(self) -> (Lateness, usize) {
        for (number, sent) in self.sent.into_iter().enumerate() {
            let answer = timeout(WAIT_TIMEOUT, sent).await;
            let answer = answer.unwrap_or_else(|_| panic!("number {number} was forgotten"));
            match answer {
                Ok(Ok(answer)) => assert!(answer.status() == 200 && !leaves(number), "{number}"),
                Ok(Err(never)) => match never {},
                Err(error) => assert!(error.is_cancelled() && leaves(number), "{number}: {error}"),
            }
        }
        assert_eq!(self.gate.layer.delayed(), 0);
        let came = self.gate.came();
        let mut numbers: Vec<usize> = came.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        let expected = (0..HELD + LEAVERS).filter(|number| !leaves(*number));
        assert!(numbers.into_iter().eq(expected), "each comes once, and none that was cancelled");
        let (mut latest, mut overtaken) = (self.schedule.first, 0);
        for (number, moment) in &came {
            let turn = self.schedule.turn(*number);
            assert!(
                moment.plus(DRIFT) >= turn,
                "number {number} went {:?} early",
                turn.since(*moment)
            );
            latest = latest.max(turn);
            overtaken += usize::from(latest.since(turn).get() > LATE);
        }
        let taken = came.iter().map(|(number, moment)| (self.schedule.turn(*number), *moment));
        (Lateness::of(taken), overtaken)
    }
}

#[test]
fn each_goes_in_its_turn_and_costs_little() {
    let mut is_punctual = false;
    for _ in 0..ROUNDS {
        is_punctual = run_alone(&mut threads(), round());
        if is_punctual {
            break;
        }
    }
    assert!(is_punctual, "late in each of {ROUNDS} rounds");
}

/// Whether all were punctual. Everything else has to be right every time.
async fn round() -> bool {
    let mut crowd = Crowd::new();
    let before = memory::kept();
    crowd.come(HELD).await;
    let each = (memory::kept() - before) / HELD;
    assert_eq!(crowd.gate.layer.delayed(), HELD);
    assert!(crowd.gate.came().is_empty(), "all are held at once");
    assert!(each <= MAX_BYTES_EACH, "{each} bytes for each that waits");
    crowd.refuse().await;
    // A cancelled request frees its place, but not its turn: a new one is behind all others.
    crowd.leave();
    crowd.come(LEAVERS).await;
    assert_eq!(crowd.gate.layer.delayed(), HELD);
    crowd.refuse().await;

    let turns = (0..HELD + LEAVERS).filter(|number| !leaves(*number));
    let floor = Floor::start(turns.map(|number| crowd.schedule.turn(number)));
    let (lateness, overtaken) = crowd.go().await;
    let floor = floor.lateness().await;
    let bound = LATE.max(floor.p99 + LATER_THAN_TIMERS);
    println!("{HELD} held, {LEAVERS} left, {each} bytes each: {lateness}");
    println!("{HELD} bare timers: {floor}");
    println!("{overtaken} were overtaken by one whose turn was more than {LATE} us later");
    let kept = memory::kept().saturating_sub(before);
    assert!(kept < HELD * 16, "{kept} bytes are kept after all have gone");
    lateness.p99 <= bound && lateness.median <= LATE_IN_THE_MEDIAN
}

/// All come at the same time, from many threads, and none is forgotten.
#[test]
fn none_is_forgotten_when_all_come_at_once() {
    // The second one is full again after 50 us, which is less than a thread may be interrupted for
    // between the clock and the counter.
    for kind in ["burst: 50000, algorithm: leaky_bucket", "burst: 1, algorithm: gcra"] {
        let rate = "limit: 20000, window: 1s, identifier_type: global";
        let throttle = "action: throttle, throttle: {max_delay_ms: 30000}";
        let policy = format!("rules: [{{rule_id: paced, {rate}, {kind}, {throttle}}}]");
        run_alone(&mut threads(), all_at_once(&policy, Micros::new(50)));
    }
}

async fn all_at_once(policy: &str, spacing: Micros) {
    let gate = Gate::new(policy, SystemClock, HELD);
    let start = SystemClock.now();
    let sent: Vec<_> = (0..HELD).map(|number| tokio::spawn(gate.request(number))).collect();
    for sent in sent {
        let answer = timeout(WAIT_TIMEOUT, sent).await.expect("every request gets a response");
        assert_eq!(answer.expect("no panic").map(|answer| answer.status()), Ok(StatusCode::OK));
    }
    assert_eq!(gate.layer.delayed(), 0);
    let came = gate.came();
    for (turn, (_, moment)) in (0..).zip(&came) {
        let turn = start.plus(Micros::new(turn * spacing.get()));
        assert!(moment.plus(DRIFT) >= turn, "{:?} early, {policy}", turn.since(*moment));
    }
    let mut numbers: Vec<usize> = came.into_iter().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..HELD), "each comes once");
}
