//! A whole check: rules found, keys made, counters charged all or nothing, figures reported.

use std::fmt::Write as _;
use std::hint::black_box;

use tollgate::{CachedClock, Limiter, MemoryStore, Policy};

use crate::Fallible;
use crate::allocations;
use crate::clients::{CLIENTS, Client};
use crate::contest::Comparison;
use crate::keys::Draw;
use crate::peers::limitador::Limitador;
use crate::peers::{LIMIT, USED, WINDOW_SECONDS};
use crate::row::{Bar, Row};
use crate::scale::Scale;
use crate::stopwatch::nanos_per_step;

/// Three rules for each service, one for each identifier, so that three apply to every request.
const RULES: [(&str, &str); 3] =
    [("user_id", "gcra"), ("ip", "sliding_window_counter"), ("tenant", "fixed_window")];

/// Checks requests of clients drawn at random.
struct Ours {
    limiter: Limiter<MemoryStore, CachedClock>,
    clients: Vec<Client>,
    draw: Draw,
    refused: u64,
}

impl Ours {
    fn with_rules(count: u32) -> Fallible<Self> {
        let policy = policy(count).map_err(|problems| format!("{problems:?}"))?;
        let limiter = Limiter::builder().policy(policy).clock(CachedClock::start()?).build();
        let clients = Client::all(services(count));
        for client in &clients {
            let decision = limiter.check_now(&client.request().cost(u64::from(USED)));
            if decision.outcomes().count() != RULES.len() {
                return Err("the rules that apply are not three".into());
            }
        }
        Ok(Self { limiter, clients, draw: Draw::new(1, u64::from(CLIENTS)), refused: 0 })
    }

    fn take(&mut self, steps: u32) {
        for _ in 0..steps {
            let client = &self.clients[self.draw.next() as usize];
            let decision = self.limiter.check_now(&client.request());
            self.refused += u64::from(!black_box(&decision).is_allowed());
        }
    }

    fn expect_all_admitted(&self) -> Fallible<()> {
        if self.refused == 0 { Ok(()) } else { Err("a check was refused".into()) }
    }
}

pub(crate) fn against_limitador(scale: &Scale) -> Fallible<Vec<Row>> {
    let mut ours = Ours::with_rules(1_000)?;
    let clients = Client::all(1);
    let limitador = Limitador::with_counters(&clients)?;
    let mut draw = Draw::new(1, u64::from(CLIENTS));
    let mut refused = false;
    let comparison = Comparison::of(
        scale,
        |turn| nanos_per_step(turn, |steps| ours.take(steps)),
        |turn| {
            nanos_per_step(turn, |steps| {
                for _ in 0..steps {
                    refused |= !limitador.check(&clients[draw.next() as usize]);
                }
            })
        },
    );
    ours.expect_all_admitted()?;
    if refused {
        return Err("limitador refused a check".into());
    }
    Ok(vec![Row::speedup("limiter/limitador", &comparison).held_to(Bar::AtLeast(10.0))])
}

/// How many times longer a check takes with a thousand times as many rules.
pub(crate) fn many_rules(scale: &Scale) -> Fallible<Vec<Row>> {
    let (mut few, mut many) = (Ours::with_rules(10)?, Ours::with_rules(10_000)?);
    let comparison = Comparison::of(
        scale,
        |turn| nanos_per_step(turn, |steps| few.take(steps)),
        |turn| nanos_per_step(turn, |steps| many.take(steps)),
    );
    few.expect_all_admitted()?;
    many.expect_all_admitted()?;
    let row = Row {
        spread: Some(comparison.spread()),
        ..Row::figure("limiter/rules_10_to_10000", comparison.ratio(), "x")
    };
    let row = row.with("few_ns", comparison.ours()).with("many_ns", comparison.peer());
    Ok(vec![row.held_to(Bar::Below(2.0))])
}

pub(crate) fn allocations(scale: &Scale) -> Fallible<Vec<Row>> {
    let mut ours = Ours::with_rules(1_000)?;
    let checks = u32::try_from(scale.of(1_000_000))?;
    let allocations = allocations::during(|| ours.take(checks));
    ours.expect_all_admitted()?;
    let per_check = allocations as f64 / f64::from(checks);
    Ok(vec![Row::figure("limiter/allocations", per_check, "").held_to(Bar::AtMost(0.0))])
}

/// How many services have all of their rules among the first `rules`.
const fn services(rules: u32) -> u32 {
    rules / RULES.len() as u32
}

fn policy(rules: u32) -> Result<Policy, Vec<tollgate::Problem>> {
    let mut text = String::from("rules:\n");
    for number in 0..rules {
        let service = number / RULES.len() as u32;
        let (identifier, algorithm) = RULES[number as usize % RULES.len()];
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "- {{rule_id: r{number}, identifier_type: {identifier}, algorithm: {algorithm}, \
             limit: {LIMIT}, window_seconds: {WINDOW_SECONDS}, \
             applies_to: {{endpoints: [/service-{service}/*]}}}}"
        );
    }
    Policy::from_text(&text)
}
