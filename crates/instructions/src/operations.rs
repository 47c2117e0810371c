//! The operations whose instructions are counted: one thread, no I/O, the same work in every run.

use std::error::Error;
use std::hint::black_box;

use tollgate::{Limiter, ManualClock, MemoryStore};
use tollgate_core::{Algorithm, Charge, ChargeResult, Key, Limit, Micros, Mode, Quota, Timestamp};
use tollgate_instructions::{Client, USED, policy, services};

/// How many operations are counted.
pub(crate) const COUNTED: u32 = 4_096;
/// How many clients and counters there are. All of them are used before anything is counted.
const CLIENTS: u32 = 2_048;
const RULES: u32 = 1_000;
const START: Timestamp = Timestamp::from_secs(1_790_000_000);

/// Runs as many operations as its argument says, and returns how many of them were admitted.
pub(crate) type Run = Box<dyn FnMut(u32) -> u32>;

type SetUp = Result<Run, Box<dyn Error>>;

const THREE_RULES: &str = "limiter/three_rules";

/// The names of all operations.
pub(crate) fn names() -> Vec<String> {
    let core = Algorithm::ALL.map(|algorithm| format!("core/{algorithm}"));
    let memory = Algorithm::ALL.map(|algorithm| format!("memory/{algorithm}"));
    core.into_iter().chain(memory).chain([THREE_RULES.to_owned()]).collect()
}

/// An operation, with its counters made.
pub(crate) fn set_up(name: &str) -> SetUp {
    let algorithm = |kind| Algorithm::from_name(name.strip_prefix(kind)?);
    if let Some(algorithm) = algorithm("core/") {
        core(algorithm)
    } else if let Some(algorithm) = algorithm("memory/") {
        memory(algorithm)
    } else if name == THREE_RULES {
        three_rules()
    } else {
        Err(format!("there is no operation {name}").into())
    }
}

/// A limit that a request every eight milliseconds exceeds: a fifth of them is refused.
fn exceeded(algorithm: Algorithm) -> Result<Limit, Box<dyn Error>> {
    Ok(Quota::new(algorithm, 100, Micros::from_secs(1)).compile()?)
}

const BETWEEN_REQUESTS: Micros = Micros::from_millis(8);

/// The arithmetic alone, admissions and refusals, on one counter.
fn core(algorithm: Algorithm) -> SetUp {
    let limit = exceeded(algorithm)?;
    let (mut state, mut now) = ([None], START);
    Ok(Box::new(move |steps| {
        let key = Key { fingerprint: 1, rule: "rule", subject: b"user", rest: b"", group: 0 };
        let charge = [Charge { key, limit: &limit, cost: 1, mode: Mode::Enforce }];
        let mut admitted = 0;
        for _ in 0..steps {
            now = now.plus(BETWEEN_REQUESTS);
            let mut result = [ChargeResult::default()];
            tollgate_core::settle(&charge, &mut state, now, black_box(&mut result));
            admitted += u32::from(black_box(&result)[0].admitted);
        }
        admitted
    }))
}

/// One charge in the memory store: find the counter, lock it, settle.
fn memory(algorithm: Algorithm) -> SetUp {
    let limit = exceeded(algorithm)?;
    let store = MemoryStore::new();
    let (mut now, mut next) = (START, 0_u64);
    Ok(Box::new(move |steps| {
        let mut admitted = 0;
        for _ in 0..steps {
            next = (next + 1) % u64::from(CLIENTS);
            if next == 0 {
                now = now.plus(BETWEEN_REQUESTS);
            }
            // Spread like a hash, and the same in every run.
            let fingerprint = next.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let key = Key { fingerprint, rule: "rule", subject: b"user", rest: b"", group: 0 };
            let charge = Charge { key, limit: &limit, cost: 1, mode: Mode::Enforce };
            let mut result = ChargeResult::default();
            store.settle_one(black_box(&charge), now, &mut result);
            admitted += u32::from(black_box(&result).admitted);
        }
        admitted
    }))
}

/// A whole check of three rules, of a thousand that are loaded.
fn three_rules() -> SetUp {
    let policy = policy(RULES).map_err(|problems| format!("{problems:?}"))?;
    let clock = ManualClock::at(START);
    let limiter = Limiter::builder().policy(policy).clock(clock.clone()).build();
    let clients = Client::all(CLIENTS, services(RULES));
    for client in &clients {
        let decision = limiter.check(&client.request().cost(u64::from(USED))).now();
        if decision.outcomes().count() != 3 {
            return Err("the rules that apply are not three".into());
        }
    }
    let mut next = 0;
    Ok(Box::new(move |steps| {
        let mut admitted = 0;
        for _ in 0..steps {
            next = (next + 1) % clients.len();
            if next == 0 {
                clock.advance(BETWEEN_REQUESTS);
            }
            let decision = limiter.check(&clients[next].request()).now();
            admitted += u32::from(black_box(&decision).is_allowed());
        }
        admitted
    }))
}
