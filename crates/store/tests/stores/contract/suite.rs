//! The suite itself: a store and the model run the same trace, side by side.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestCaseResult, TestError, TestRunner};
use tollgate_core::{Algorithm, Charge, Key, MIN_WINDOW, Mode, Quota, Timestamp};
use tollgate_store::{Op, OpOutcome, Refund, SettleRequest, Settlement, Store, StoreError};
use tollgate_testbed::Stopwatch;

use crate::contract::draw::{
    Action, COUNTERS, Clock, Item, Reach, Trace, config, number_in, traces,
};
use crate::contract::model::Model;

/// Runs so many random traces through stores made by `make`, whose states `text` can read; in a campaign, so many times
/// that number that at least `TOLLGATE_TRACE_STEPS` steps are run. `name` is the store, in what is printed.
pub(crate) fn check_store<S: Store>(
    name: &str,
    cases: u32,
    reach: Reach,
    make: impl Fn() -> S,
    text: impl Fn(&S, &Key<'_>) -> Option<String>,
) {
    let (began, steps, wanted) = (Stopwatch::start(), Cell::new(0), number_in(TRACE_STEPS));
    let mut traces = 0;
    loop {
        let config = config(cases);
        traces += u64::from(config.cases);
        match run_all(config, reach, &make, &text, &steps) {
            Ok(()) => {}
            Err(TestError::Fail(reason, trace)) => panic!("{reason}\non {trace:?}"),
            Err(aborted) => panic!("{aborted}"),
        }
        if steps.get() >= wanted.unwrap_or_default() {
            break;
        }
    }
    println!("{name}: {} steps of {traces} traces in {:.0?}", steps.get(), began.elapsed());
}

/// How many steps a campaign runs at least, through each store.
const TRACE_STEPS: &str = "TOLLGATE_TRACE_STEPS";

/// The rules of a client, each with its group. Another's rule may have the same id.
const RULES: [(&str, u64); 4] = [("first", 0), ("second", 0), ("third", 0), ("first", 1 << 63 | 7)];

/// Looks for a trace on which a store and the model differ; there should be none.
pub(crate) fn differ<S: Store>(
    config: Config,
    reach: Reach,
    make: impl Fn() -> S,
    text: impl Fn(&S, &Key<'_>) -> Option<String>,
) -> Result<(), TestError<Trace>> {
    run_all(config, reach, &make, &text, &Cell::new(0))
}

/// Runs traces, and counts the steps that were made and compared.
fn run_all<S: Store>(
    config: Config,
    reach: Reach,
    make: &impl Fn() -> S,
    text: &impl Fn(&S, &Key<'_>) -> Option<String>,
    steps: &Cell<u64>,
) -> Result<(), TestError<Trace>> {
    TestRunner::new(config).run(&traces(reach), |trace| {
        let (store, model) = (make(), Model::default());
        Run { store, model, trace: &trace, reach, steps }.trace(text)
    })
}

struct Run<'a, S> {
    store: S,
    model: Model,
    trace: &'a Trace,
    reach: Reach,
    steps: &'a Cell<u64>,
}

impl<S: Store> Run<'_, S> {
    fn trace(&mut self, text: &impl Fn(&S, &Key<'_>) -> Option<String>) -> TestCaseResult {
        // Four counters each are of one client, whose rules count by the same identifiers.
        let names: Vec<String> =
            (0..COUNTERS).map(|number| format!("client {}", number / RULES.len())).collect();
        let one = format!("tenant {:?}", self.trace.start);
        let keys: Vec<Key<'_>> = names
            .iter()
            .map(|name| if self.reach.one_subject { (&one, name) } else { (name, &one) })
            .zip(RULES.iter().cycle())
            .map(|((subject, rest), (rule, group))| {
                let key = Key::new(&self.trace.hasher, rule, subject.as_bytes(), rest.as_bytes());
                key.in_group(*group)
            })
            .collect();
        let by_stores_clock = self.reach.by_stores_clock;
        let start = if by_stores_clock { self.stores_time(keys[0]) } else { self.trace.start };
        let mut moments = vec![start];
        for step in &self.trace.steps {
            let before = moments[moments.len() - 1];
            let mut now = match step.clock {
                Clock::Forward(span) => before.plus(span),
                Clock::Back(span) => before.minus(span),
            };
            if by_stores_clock {
                // What a refund does to a window depends on when it is made, which is not in the reply.
                if let Action::Refund(_) = step.action {
                    continue;
                }
                now = self.act(&step.action, &keys, &moments)?.unwrap_or(before);
                moments.push(now);
            } else {
                let is_behind = moments.iter().any(|moment| *moment > now);
                self.forget_the_empty(&step.action, &keys, now, is_behind);
                moments.push(now);
                self.act(&step.action, &keys, &moments)?;
            }
            self.steps.set(self.steps.get() + 1);
            let touched: BTreeSet<usize> = step.action.counters().collect();
            for (number, key) in keys.iter().enumerate() {
                // A store across a network is only asked about what may have changed.
                if self.store.is_shared() && !touched.contains(&number) {
                    continue;
                }
                let kept = text(&self.store, key);
                let expected = self.model.text(number);
                if kept.is_none() && self.model.expire(number, now) {
                    continue;
                }
                prop_assert_eq!(kept, expected, "state of counter {} after {:?}", number, step);
            }
        }
        Ok(())
    }

    /// The time by the clock of the store.
    fn stores_time(&self, key: Key<'_>) -> Timestamp {
        let limit = Quota::new(Algorithm::Gcra, 1, MIN_WINDOW).compile().expect("a valid quota");
        let look = Charge { key, limit: &limit, cost: 0, mode: Mode::Enforce };
        let settled = block_on(self.store.settle(&[look], self.trace.start));
        settled.expect("a store that answers").now
    }

    /// Whether a counter that has expired is still there is up to the store. Mostly it makes no
    /// difference, but it shows while the clock is behind, and when the limit changes, which rounds
    /// what is used up to whole units. So such counters are forgotten first.
    fn forget_the_empty(
        &mut self,
        action: &Action,
        keys: &[Key<'_>],
        now: Timestamp,
        is_behind: bool,
    ) {
        for (number, key) in keys.iter().enumerate() {
            let limit = self.model.limit(number);
            let is_changed = action
                .items()
                .any(|item| item.counter == number && Some(self.trace.limit(item)) != limit);
            if (is_behind || is_changed) && self.model.expire(number, now) {
                block_on(self.store.reset(&[*key])).expect("a store that answers");
            }
        }
    }

    /// Does the same to the store and to the model. Returns the last time that the store dated a settlement by, if it
    /// uses its own clock.
    fn act(
        &mut self,
        action: &Action,
        keys: &[Key<'_>],
        moments: &[Timestamp],
    ) -> Result<Option<Timestamp>, TestCaseError> {
        let now = moments[moments.len() - 1];
        let mut dated = None;
        match action {
            Action::Settle(items) => {
                let request = Request::new(items, self.trace, keys);
                let settled = block_on(self.store.settle(&request.charges, now));
                dated = self.compare(&request, settled, false, now)?;
            }
            Action::DryRun(items) => {
                let mut request = Request::new(items, self.trace, keys);
                // A debit is never tried: it is always taken.
                let debits = request.charges.iter_mut().filter(|it| it.mode == Mode::Debit);
                debits.for_each(|debit| debit.mode = Mode::Shadow);
                let (charges, is_dry_run) = (request.charges.as_slice(), true);
                let op = Op::Settle(SettleRequest { charges, idempotency: None, is_dry_run });
                let outcome = block_on(self.store.submit_one(op, now));
                let settled = outcome.and_then(OpOutcome::settled);
                dated = self.compare(&request, settled, is_dry_run, now)?;
            }
            Action::Batch(requests) => {
                let requests: Vec<Request<'_>> =
                    requests.iter().map(|items| Request::new(items, self.trace, keys)).collect();
                let charges: Vec<&[Charge<'_>]> =
                    requests.iter().map(|request| request.charges.as_slice()).collect();
                let settled = block_on(self.store.settle_batch(&charges, now));
                prop_assert_eq!(settled.len(), requests.len());
                for (request, settled) in requests.iter().zip(settled) {
                    dated = self.compare(request, settled, false, now)?.or(dated);
                }
            }
            Action::Refund(refunds) => {
                let tied = |ago: usize| moments[moments.len().saturating_sub(1 + ago)];
                let refunds: Vec<(usize, Refund<'_>)> = refunds
                    .iter()
                    .map(|(item, ago)| {
                        let (limit, units) = (self.trace.limit(item), self.trace.units(item));
                        let (key, charged_at) = (keys[item.counter], ago.map(tied));
                        (item.counter, Refund { key, limit, units, charged_at })
                    })
                    .collect();
                let given: Vec<Refund<'_>> = refunds.iter().map(|(_, refund)| *refund).collect();
                block_on(self.store.refund(&given, now)).expect("a store that answers");
                for (number, Refund { limit, units, charged_at, .. }) in refunds {
                    self.model.refund(number, limit, now, units, charged_at);
                }
            }
            Action::Reset(numbers) => {
                let forgotten: Vec<Key<'_>> = numbers.iter().map(|number| keys[*number]).collect();
                block_on(self.store.reset(&forgotten)).expect("a store that answers");
                numbers.iter().for_each(|number| self.model.reset(*number));
            }
        }
        Ok(dated)
    }

    fn compare(
        &mut self,
        request: &Request<'_>,
        settled: Result<Settlement, StoreError>,
        is_dry_run: bool,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, TestCaseError> {
        let settled = settled.expect("a store that answers");
        // A request without charges is not sent.
        let is_dated = self.reach.by_stores_clock && !request.charges.is_empty();
        let now = if is_dated { settled.now } else { now };
        let (passed, results) =
            self.model.settle(&request.numbers, &request.charges, is_dry_run, now);
        prop_assert_eq!(settled.results.as_slice(), results.as_slice(), "results of {:?}", request);
        prop_assert_eq!(settled.passed, passed, "verdict on {:?}", request);
        Ok(is_dated.then_some(now))
    }
}

/// Charges with distinct keys, and the numbers of their counters.
#[derive(Debug)]
struct Request<'a> {
    numbers: Vec<usize>,
    charges: Vec<Charge<'a>>,
}

impl<'a> Request<'a> {
    fn new(items: &[Item], trace: &'a Trace, keys: &[Key<'a>]) -> Self {
        let mut seen = BTreeSet::new();
        let (numbers, charges) = items
            .iter()
            .filter(|item| seen.insert(item.counter))
            .map(|item| {
                let (limit, cost) = (trace.limit(item), trace.units(item));
                let key = keys[item.counter];
                (item.counter, Charge { key, limit, cost, mode: item.mode })
            })
            .unzip();
        Self { numbers, charges }
    }
}

/// Waits for a future on this thread, so that stores across a network can be checked as well.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
