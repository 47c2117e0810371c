//! A whole check: rules found, keys made, counters charged all or nothing, figures reported.

use std::hint::black_box;
use std::time::Duration;

use tollgate::{CachedClock, Limiter, MemoryStore};
use tollgate_instructions::{RULES_OF_SERVICE, policy, services};

use crate::Fallible;
use crate::allocations;
use crate::clients::Requests;
use crate::contest::Comparison;
use crate::peers::USED;
use crate::peers::limitador::Limitador;
use crate::row::{Bar, Row};
use crate::scale::Scale;
use crate::stopwatch::{nanos_per_step, nanos_per_step_side_by_side};

struct OurLimiter {
    limiter: Limiter<MemoryStore, CachedClock>,
    requests: Requests,
}

impl OurLimiter {
    /// So many rules, and requests to so many services.
    fn new(rules: u32, services: u32) -> Fallible<Self> {
        let policy = policy(rules).map_err(|problems| format!("{problems:?}"))?;
        let limiter = Limiter::builder().policy(policy).clock(CachedClock::start()?).build();
        let requests = Requests::over_services(services);
        for client in &requests.clients {
            let decision = limiter.check(&client.request().cost(u64::from(USED))).now();
            if decision.outcomes().count() != RULES_OF_SERVICE.len() {
                return Err("the rules that apply are not three".into());
            }
        }
        Ok(Self { limiter, requests })
    }

    /// So many rules, all of them in use.
    fn with_rules(rules: u32) -> Fallible<Self> {
        Self::new(rules, services(rules))
    }

    fn take(&mut self, steps: u32) {
        take(&self.limiter, &mut self.requests, steps);
    }
}

fn take(limiter: &Limiter<MemoryStore, CachedClock>, requests: &mut Requests, steps: u32) {
    requests.take(steps, |client| {
        let decision = limiter.check(&client.request()).now();
        black_box(&decision).is_allowed()
    });
}

pub(crate) fn against_limitador(scale: &Scale) -> Fallible<Vec<Row>> {
    let mut ours = OurLimiter::with_rules(1_000)?;
    let mut requests = Requests::over_services(1);
    let limitador = Limitador::with_counters(&requests.clients)?;
    let comparison = Comparison::of(
        scale,
        |turn| net_nanos(turn, |steps| ours.take(steps)),
        |turn| net_nanos(turn, |steps| requests.take(steps, |client| limitador.check(client))),
    );
    ours.requests.expect_all_admitted()?;
    requests.expect_all_admitted()?;
    let row = Row::speedup("limiter/limitador", &comparison);
    Ok(vec![row.with("request_ns", request_nanos(scale.turn)).held_to(Bar::AtLeast(20.0))])
}

/// What a check takes beyond drawing its request and copying its texts, which is work of the benchmark.
fn net_nanos(turn: Duration, check: impl FnMut(u32)) -> f64 {
    nanos_per_step(turn, check) - request_nanos(turn / 4)
}

fn request_nanos(turn: Duration) -> f64 {
    let mut requests = Requests::over_services(1);
    nanos_per_step(turn, |steps| requests.take(steps, |client| !black_box(client).path.is_empty()))
}

/// Our own two threads against our own one: the peer is the single thread.
pub(crate) fn two_threads(scale: &Scale) -> Fallible<Vec<Row>> {
    let OurLimiter { limiter, requests: mut alone } = OurLimiter::with_rules(1_000)?;
    let mut pair = [2, 3].map(|seed| Requests::drawn_by(seed, services(1_000)));
    let limiter = &limiter;
    let comparison = Comparison::of(
        scale,
        |turn| {
            let both = pair.iter_mut().map(|requests| |steps| take(limiter, requests, steps));
            nanos_per_step_side_by_side(turn, both.collect())
        },
        |turn| nanos_per_step_side_by_side(turn, vec![|steps| take(limiter, &mut alone, steps)]),
    );
    for requests in pair.iter().chain([&alone]) {
        requests.expect_all_admitted()?;
    }
    Ok(vec![Row::speedup("limiter/2_threads", &comparison).held_to(Bar::AtLeast(1.7))])
}

/// How many times longer a check takes with a thousand times as many rules: when requests are the
/// same, and when they spread over all rules, which then compete for the cache.
pub(crate) fn many_rules(scale: &Scale) -> Fallible<Vec<Row>> {
    let (few, many) = (10, 10_000);
    let mut few_rules = OurLimiter::with_rules(few)?;
    let mut compare = |name: &str, mut many_rules: OurLimiter| -> Fallible<Row> {
        let comparison = Comparison::of(
            scale,
            |turn| nanos_per_step(turn, |steps| few_rules.take(steps)),
            |turn| nanos_per_step(turn, |steps| many_rules.take(steps)),
        );
        few_rules.requests.expect_all_admitted()?;
        many_rules.requests.expect_all_admitted()?;
        let spread = Some(comparison.spread());
        let row = Row { spread, ..Row::figure(name, comparison.ratio(), "x") };
        let row = row.with("few_ns", comparison.ours()).with("many_ns", comparison.peer());
        Ok(row.held_to(Bar::Below(2.0)))
    };
    Ok(vec![
        compare("limiter/rules_10_to_10000", OurLimiter::new(many, services(few))?)?,
        compare("limiter/rules_10_to_10000_all_used", OurLimiter::with_rules(many)?)?,
    ])
}

pub(crate) fn allocations(scale: &Scale) -> Fallible<Vec<Row>> {
    let mut ours = OurLimiter::with_rules(1_000)?;
    let checks = u32::try_from(scale.of(1_000_000))?;
    // The first checks fill the buffers of the requests.
    ours.take(checks / 10);
    let allocations = allocations::during(|| ours.take(checks));
    ours.requests.expect_all_admitted()?;
    let per_check = allocations as f64 / f64::from(checks);
    Ok(vec![Row::figure("limiter/allocations", per_check, "").held_to(Bar::AtMost(0.0))])
}
