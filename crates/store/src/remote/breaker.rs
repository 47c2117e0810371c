//! The circuit breaker of a server: after a number of failures in a row it opens, and calls fail at once instead of
//! waiting; then one request probes the server.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::Timestamp;

use super::OpResult;
use super::clock::{Moment, wall_clock};
use super::fleet_gate::FleetGate;
use super::settings::{BreakerState, RemoteSettings, RemoteStatus};
use crate::{Histogram, OpOutcome, StoreError, StoreErrorKind};

/// No clock was seen yet.
const UNSEEN: i64 = i64::MIN;

/// The circuit breaker and the figures of one server.
#[derive(Debug)]
pub(crate) struct Breaker {
    server: String,
    most_failures: u32,
    probe_after: Duration,
    most_drift: Duration,
    gate: FleetGate,
    state: Mutex<BreakerPhase>,
    /// Whether a caller has left before its call ended, and no call has ended since.
    is_abandoned: AtomicBool,
    openings: AtomicU64,
    /// Failed requests, by kind of error.
    errors: [AtomicU64; StoreErrorKind::ALL.len()],
    /// Calls that were made, those without a response yet included.
    calls: AtomicU64,
    /// Requests whose results were recorded. Other calls, as those for the mark of the fleet, say nothing here.
    results: AtomicU64,
    /// The results when it was last asked whether the server is idle.
    results_before: AtomicU64,
    latency: Histogram,
    drift_micros: AtomicI64,
}

#[derive(Debug)]
struct BreakerPhase {
    /// Failures since the last success.
    in_a_row: u32,
    /// When it opened.
    opened_at: Option<Moment>,
    /// When it opened, or the last probe failed.
    open_since: Option<Moment>,
    is_probing: bool,
    /// What the last failure was, until a success.
    last_failure: Option<StoreErrorKind>,
    is_adrift: bool,
}

impl BreakerPhase {
    /// Whether the last failure was a refusal. A server that refuses writes, as one whose memory is full does, may respond
    /// to reads, which would close the circuit breaker again and again.
    fn refuses_writes(&self) -> bool {
        self.last_failure == Some(StoreErrorKind::Refused)
    }
}

/// What the success of a request says about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// It responds.
    Read,
    /// It responds, and it writes.
    Write,
}

impl Proof {
    /// What the result of an operation proves; `is_charge`: see [`super::OwnedOp::is_charge`].
    pub(crate) fn of(is_charge: bool, result: &OpResult) -> Self {
        match result {
            Ok(OpOutcome::Settled(settlement)) if is_charge && settlement.passed => Self::Write,
            _ => Self::Read,
        }
    }
}

/// A request that was admitted. Dropped without a result, it was abandoned: its caller has left.
#[derive(Debug)]
pub(crate) struct Admitted<B: Deref<Target = Breaker>> {
    breaker: B,
    is_probe: bool,
    is_recorded: bool,
}

impl Breaker {
    /// A circuit breaker for a server, whose name is for logs and metrics.
    pub(crate) fn new(server: String, settings: &RemoteSettings) -> Self {
        Self {
            server,
            most_failures: settings.failures.max(1),
            probe_after: settings.probe_after,
            most_drift: settings.drift,
            gate: settings.gate.clone(),
            state: Mutex::new(BreakerPhase {
                in_a_row: 0,
                opened_at: None,
                open_since: None,
                is_probing: false,
                last_failure: None,
                is_adrift: false,
            }),
            is_abandoned: AtomicBool::new(false),
            openings: AtomicU64::new(0),
            errors: Default::default(),
            calls: AtomicU64::new(0),
            results: AtomicU64::new(0),
            results_before: AtomicU64::new(0),
            latency: Histogram::default(),
            drift_micros: AtomicI64::new(UNSEEN),
        }
    }

    /// Admits a request, unless the circuit breaker is open.
    #[cfg(any(feature = "postgres", test))]
    pub(crate) fn admit(&self) -> Result<Admitted<&Self>, StoreError> {
        Admitted::new(self)
    }

    /// Counts a call to the server, before it is made.
    pub(crate) fn count_call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// Records how long a call took, whether or not there was a response.
    pub(crate) fn record_latency(&self, took: Duration) {
        self.latency.observe(took);
    }

    /// Records how a call ended, for callers that left before it did. Callers with a shorter timeout than that
    /// of the store would otherwise never open the circuit breaker.
    pub(crate) fn call_ended(&self, error: Option<&StoreError>) {
        if !self.is_abandoned.load(Relaxed) || !self.is_abandoned.swap(false, Relaxed) {
            return;
        }
        match error {
            None => self.succeeded(false, Proof::Read),
            Some(error) => {
                let open_since = self.state.lock().open_since;
                let is_probe = open_since.is_some_and(|since| since.elapsed() >= self.probe_after);
                self.failed(is_probe, error);
            }
        }
    }

    /// Records the server's clock.
    pub(crate) fn note_clock(&self, theirs: Timestamp) {
        let ours = wall_clock();
        let drift = theirs.as_micros().cast_signed().saturating_sub(ours.as_micros().cast_signed());
        self.drift_micros.store(drift, Relaxed);
        let is_adrift = u128::from(drift.unsigned_abs()) > self.most_drift.as_micros();
        // Almost always nothing has changed, so no call waits for the lock.
        let Some(mut state) = self.state.try_lock() else { return };
        if state.is_adrift != is_adrift {
            state.is_adrift = is_adrift;
            let (server, seconds) = (&self.server, drift as f64 / 1e6);
            if is_adrift {
                tracing::warn!(
                    server,
                    seconds,
                    "the store's clock is far from ours; limits use the store's clock"
                );
            } else {
                tracing::info!(server, seconds, "the store's clock is close to ours again");
            }
        }
    }

    /// The status of the server.
    pub(crate) fn status(&self) -> RemoteStatus {
        let (breaker, failure) = {
            let state = self.state.lock();
            let breaker = match (state.open_since, state.is_probing) {
                _ if self.gate.is_closed() => BreakerState::Open,
                (None, _) => BreakerState::Closed,
                (Some(_), false) => BreakerState::Open,
                (Some(_), true) => BreakerState::Probing,
            };
            (breaker, self.gate.closed_by().or(state.last_failure))
        };
        let drift = self.drift_micros.load(Relaxed);
        let latency = self.latency.read();
        let errors = StoreErrorKind::ALL
            .map(|kind| (kind.label(), self.errors[kind as usize].load(Relaxed)));
        RemoteStatus {
            server: self.server.clone(),
            breaker,
            failure,
            openings: self.openings.load(Relaxed),
            failures: errors.iter().map(|(_, count)| count).sum(),
            calls: self.calls.load(Relaxed),
            errors,
            latency,
            drift_seconds: (drift != UNSEEN).then_some(drift as f64 / 1e6),
        }
    }

    /// Whether the status may be old: no request ended since this was last asked, or the circuit breaker is open.
    pub(crate) fn is_idle(&self) -> bool {
        let results = self.results.load(Relaxed);
        let is_idle = self.results_before.swap(results, Relaxed) == results;
        is_idle || self.state.lock().open_since.is_some()
    }

    /// Whether the last calls failed, but too few to open the circuit breaker.
    pub(crate) fn is_doubtful(&self) -> bool {
        let state = self.state.lock();
        state.in_a_row > 0 && state.open_since.is_none()
    }

    /// Whether requests are admitted without being probes.
    #[cfg(feature = "redis")]
    pub(crate) fn is_closed(&self) -> bool {
        self.gate.admit().is_ok() && self.state.lock().open_since.is_none()
    }

    /// Admits a request; returns whether it is a probe.
    fn try_admit(&self) -> Result<bool, StoreError> {
        self.gate.admit().inspect_err(|error| self.count_error(error.kind()))?;
        let mut state = self.state.lock();
        match state.open_since {
            None => Ok(false),
            Some(since) if !state.is_probing && since.elapsed() >= self.probe_after => {
                state.is_probing = true;
                Ok(true)
            }
            Some(_) if state.refuses_writes() => Err(StoreErrorKind::Refused.into()),
            Some(_) => Err(StoreErrorKind::Unavailable.into()),
        }
    }

    fn succeeded(&self, is_probe: bool, proof: Proof) {
        let mut state = self.state.lock();
        if state.refuses_writes() && proof == Proof::Read {
            if is_probe {
                state.is_probing = false;
                state.open_since = Some(Moment::now());
            }
            return;
        }
        (state.in_a_row, state.last_failure) = (0, None);
        if state.open_since.take().is_some() {
            state.is_probing = false;
            let open_for = state.opened_at.take().map(Moment::elapsed).unwrap_or_default();
            let (server, seconds) = (&self.server, open_for.as_secs_f64());
            tracing::info!(server, seconds, "circuit breaker closed: the store responds again");
        }
    }

    fn count_error(&self, kind: StoreErrorKind) {
        self.errors[kind as usize].fetch_add(1, Relaxed);
    }

    /// Counts a value that cannot be read, and logs the first.
    fn count_unreadable(&self, error: &StoreError) {
        if self.errors[StoreErrorKind::Corrupt as usize].fetch_add(1, Relaxed) > 0 {
            return;
        }
        let (server, why) = (&self.server, why(error));
        tracing::warn!(
            server,
            why,
            "a value in the store cannot be read: each rule's on_store_failure applies to its requests; further ones are \
             counted in tollgate_store_errors_total"
        );
    }

    fn failed(&self, is_probe: bool, error: &StoreError) {
        self.count_error(error.kind());
        let mut state = self.state.lock();
        state.in_a_row = state.in_a_row.saturating_add(1);
        state.last_failure = Some(error.kind());
        if is_probe {
            state.is_probing = false;
            state.open_since = Some(Moment::now());
        } else if state.open_since.is_none() && state.in_a_row >= self.most_failures {
            let now = Moment::now();
            (state.opened_at, state.open_since) = (Some(now), Some(now));
            self.openings.fetch_add(1, Relaxed);
            let (server, failures, why) = (&self.server, state.in_a_row, why(error));
            tracing::warn!(
                server,
                failures,
                why,
                "circuit breaker opened: each rule's on_store_failure applies"
            );
        }
    }
}

/// What caused an error, or else what it is.
fn why(error: &StoreError) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    source.unwrap_or_else(|| error.to_string())
}

impl<B: Deref<Target = Breaker>> Admitted<B> {
    pub(crate) fn new(breaker: B) -> Result<Self, StoreError> {
        let is_probe = breaker.try_admit()?;
        Ok(Self { breaker, is_probe, is_recorded: false })
    }

    /// Records the result of the request, and what a success proves. A server that refuses is a failure as well. A value
    /// that cannot be read is none: other counters work as before.
    pub(crate) fn record<T>(self, answer: &Result<T, StoreError>, proof: Proof) {
        self.breaker.results.fetch_add(1, Relaxed);
        self.record_probe(answer, proof);
    }

    /// Records the result of the probe of an idle server, which stays idle.
    pub(crate) fn record_probe<T>(mut self, answer: &Result<T, StoreError>, proof: Proof) {
        self.is_recorded = true;
        match answer {
            Ok(_) => self.breaker.succeeded(self.is_probe, proof),
            Err(error) if error.kind() == StoreErrorKind::Corrupt => {
                self.breaker.count_unreadable(error);
                self.breaker.succeeded(self.is_probe, Proof::Read);
            }
            Err(error) => self.breaker.failed(self.is_probe, error),
        }
    }
}

impl<B: Deref<Target = Breaker>> Drop for Admitted<B> {
    fn drop(&mut self) {
        if self.is_recorded {
            return;
        }
        self.breaker.is_abandoned.store(true, Relaxed);
        // An abandoned probe proves nothing, so another may be made.
        if self.is_probe {
            self.breaker.state.lock().is_probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays events: `+` and `-` a request that is made and succeeds or fails, `r` one that only reads, `w` one that is
    /// refused, `x` one that is not admitted, `a` one whose caller leaves, `c` one that reads a corrupt value.
    fn check(probe_after: Duration, events: &str, expected: BreakerState) {
        let settings = RemoteSettings { failures: 3, probe_after, ..RemoteSettings::default() };
        let breaker = Breaker::new("a server".to_owned(), &settings);
        for event in events.chars() {
            let admitted = breaker.admit();
            match event {
                '+' => admitted.expect(events).record(&Ok(()), Proof::Write),
                'r' => admitted.expect(events).record(&Ok(()), Proof::Read),
                '-' => fail(admitted.expect(events), StoreErrorKind::Timeout),
                'w' => fail(admitted.expect(events), StoreErrorKind::Refused),
                'c' => fail(admitted.expect(events), StoreErrorKind::Corrupt),
                'a' => drop(admitted.expect(events)),
                _ => assert!(admitted.is_err(), "{events}"),
            }
        }
        assert_eq!(breaker.status().breaker, expected, "{events}");
    }

    fn fail(admitted: Admitted<&Breaker>, kind: StoreErrorKind) {
        admitted.record::<()>(&Err(kind.into()), Proof::Read);
    }

    /// A full Redis refuses writes and responds to reads, which closed the circuit breaker again and again.
    #[test]
    fn reads_do_not_close_the_breaker_of_a_server_that_refuses_writes() {
        check(Duration::from_secs(3_600), "wrwrwx", BreakerState::Open);
        check(Duration::ZERO, "wwwrrr", BreakerState::Open);
        check(Duration::ZERO, "wwwcrw", BreakerState::Open);
        check(Duration::ZERO, "wwwr+ww", BreakerState::Closed);
        // One that timed out responds again.
        check(Duration::ZERO, "ww-r", BreakerState::Closed);
    }

    /// Redis at its `maxmemory` looked like an interrupted network once the circuit breaker was open.
    #[test]
    fn an_open_breaker_says_that_the_server_refuses() {
        let kind_after = |kind: StoreErrorKind| {
            let settings = RemoteSettings { failures: 1, ..RemoteSettings::default() };
            let breaker = Breaker::new("a server".to_owned(), &settings);
            fail(breaker.admit().expect("closed"), kind);
            assert_eq!(breaker.status().failure, Some(kind));
            breaker.admit().expect_err("open").kind()
        };
        assert_eq!(kind_after(StoreErrorKind::Refused), StoreErrorKind::Refused);
        // It was not called, so it is known that nothing was charged.
        assert_eq!(kind_after(StoreErrorKind::Timeout), StoreErrorKind::Unavailable);
    }

    /// All kinds of errors were 0 while a node was kept from the store of another fleet.
    #[test]
    fn a_store_of_another_fleet_is_an_error_that_is_counted() {
        let gate = FleetGate::closed();
        let settings = RemoteSettings { gate: gate.clone(), ..RemoteSettings::default() };
        let breaker = Breaker::new("a server".to_owned(), &settings);
        let check = |kind: StoreErrorKind| {
            assert_eq!(breaker.admit().expect_err("closed").kind(), kind);
            let status = breaker.status();
            assert_eq!(status.failure, Some(kind));
            assert_eq!(status.errors[kind as usize], (kind.label(), 1));
        };
        check(StoreErrorKind::Unavailable);
        gate.set_open(false);
        check(StoreErrorKind::OtherFleet);
        gate.set_open(true);
        assert!(breaker.admit().is_ok() && breaker.status().failure.is_none());
    }

    #[test]
    fn three_failures_in_a_row_open_the_breaker() {
        let long = Duration::from_secs(3_600);
        check(long, "", BreakerState::Closed);
        check(long, "--+--+", BreakerState::Closed);
        check(long, "---", BreakerState::Open);
        check(long, "---xxx", BreakerState::Open);
        // Probed again at once.
        check(Duration::ZERO, "---+", BreakerState::Closed);
        check(Duration::ZERO, "----", BreakerState::Open);
        check(Duration::ZERO, "---aa-+", BreakerState::Closed);
        check(Duration::ZERO, "---+--", BreakerState::Closed);
    }

    #[test]
    fn a_value_that_cannot_be_read_is_no_failure_of_the_server() {
        check(Duration::from_secs(3_600), "cccccccc", BreakerState::Closed);
        check(Duration::ZERO, "---c", BreakerState::Closed);
    }

    #[test]
    fn a_server_without_requests_is_idle() {
        let settings = RemoteSettings { failures: 2, ..RemoteSettings::default() };
        let breaker = Breaker::new("a server".to_owned(), &settings);
        assert!(breaker.is_idle() && breaker.is_idle());
        breaker.admit().expect("closed").record(&Ok(()), Proof::Read);
        assert!(!breaker.is_idle() && breaker.is_idle());
        // A node asks for the mark of the fleet ten times a second while there is no response.
        breaker.count_call();
        assert!(breaker.is_idle(), "a call whose result is not recorded");
        let fail_once = || fail(breaker.admit().expect("closed"), StoreErrorKind::Timeout);
        assert!(!breaker.is_doubtful());
        fail_once();
        assert!(breaker.is_doubtful());
        fail_once();
        assert!(!breaker.is_doubtful());
        // While it is open, calls are refused and say nothing about the server.
        assert!(breaker.is_idle() && breaker.is_idle());
    }

    #[test]
    fn only_one_request_probes() {
        let settings = RemoteSettings {
            failures: 1,
            probe_after: Duration::ZERO,
            ..RemoteSettings::default()
        };
        let breaker = Breaker::new("a server".to_owned(), &settings);
        fail(breaker.admit().expect("closed"), StoreErrorKind::Timeout);
        let probe = breaker.admit().expect("a probe");
        assert_eq!(breaker.status().breaker, BreakerState::Probing);
        assert!(breaker.admit().is_err() && breaker.admit().is_err());
        probe.record(&Ok(()), Proof::Write);
        assert!(breaker.admit().is_ok() && breaker.admit().is_ok());
    }
}
