//! Changes while traffic flows: 10,000 rules and 1,000,000 clients, of which one changes at a time.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tollgate::{CachedClock, Limiter, MemoryStore, Request, Revision};
use tollgate_catalog::{Change, Entry, Kind, Update, Version, View};

use crate::Fallible;
use crate::contest::Comparison;
use crate::row::{Bar, Row};
use crate::scale::Scale;
use crate::stopwatch::{nanos_per_step, nanos_taken};

const RULES: u64 = 10_000;
const CLIENTS: u64 = 1_000_000;
/// How often a client changes while others are checked.
const CHANGE_INTERVAL: Duration = Duration::from_millis(1);
/// How many changes are made in a row; the clock is read around all of them.
const CHANGES: u64 = 200;

type OurCatalog = Limiter<MemoryStore, CachedClock>;

/// A node that has everything in force.
struct Node {
    limiter: OurCatalog,
    view: View,
}

impl Node {
    fn new(scale: &Scale) -> Fallible<Self> {
        let rules = (0..scale.of(RULES)).map(|number| rule(number, 1_000_000));
        let tiers = ["free", "pro"].map(|tier| change(Kind::Tier, &json!({ "tier": tier })));
        let clients = (0..scale.of(CLIENTS)).map(|number| client(number, "free"));
        let changes = tiers.into_iter().chain(rules).chain(clients).collect::<Fallible<_>>()?;
        let view = View::default().apply(&Update::new(version(1), changes)).map_err(told)?;
        let limiter = Limiter::builder().clock(CachedClock::start()?).build();
        limiter.install(view.policy());
        Ok(Self { limiter, view })
    }

    /// Makes a change and puts it in force.
    fn apply(&mut self, change: Fallible<Change>) -> Fallible<()> {
        let change = change?;
        let next = self.view.version().revision.number + 1;
        self.view = self.view.apply(&Update::new(version(next), vec![change])).map_err(told)?;
        self.limiter.install(self.view.policy());
        Ok(())
    }
}

/// How long a changed rule and a changed client take to be in force.
pub(crate) fn changes(scale: &Scale) -> Fallible<Vec<Row>> {
    let mut node = Node::new(scale)?;
    let mut failed = None;
    let mut rounds = |of: u64, make: &dyn Fn(u64) -> Fallible<Change>| {
        let mut samples: Vec<f64> = (0..=scale.rounds as u64)
            .map(|round| {
                let taken = nanos_taken(|| {
                    for number in 0..of {
                        failed = node.apply(make(round * of + number)).err().or(failed.take());
                    }
                });
                taken / of as f64
            })
            .collect();
        samples.sort_by(f64::total_cmp);
        samples[samples.len() / 2]
    };
    let of_rule = rounds(1, &|number| rule(number, 2_000_000 + number));
    let tier = |number: u64| if number.is_multiple_of(2) { "pro" } else { "free" };
    let clients = scale.of(CLIENTS);
    let of_client = rounds(CHANGES, &|number| client(number * 7_919 % clients, tier(number / 3)));
    if let Some(error) = failed {
        return Err(error);
    }
    Ok(vec![
        Row::figure("catalog/rule_changed", of_rule / 1e9, "s").held_to(Bar::Below(1.0)),
        Row::figure("catalog/client_changed", of_client / 1e3, "us").held_to(Bar::Below(1_000.0)),
    ])
}

/// What a check costs while a client changes every millisecond, against one in peace.
pub(crate) fn checks_meanwhile(scale: &Scale) -> Fallible<Vec<Row>> {
    let mut node = Node::new(scale)?;
    let clients = scale.of(CLIENTS);
    let limiter = std::sync::Arc::new(Limiter::builder().clock(CachedClock::start()?).build());
    limiter.install(node.view.policy());
    let users: Vec<String> = (0..1_000).map(|it| format!("u{}", it * 991 % clients)).collect();
    let check = |turn: Duration| {
        let mut at = 0;
        nanos_per_step(turn, |steps| {
            for _ in 0..steps {
                at = (at + 1) % users.len();
                let request = Request::new().user_id(&users[at]).path("/service-7/orders");
                black_box(limiter.check(&request).now().is_allowed());
            }
        })
    };
    let comparison = Comparison::of(scale, &check, |turn| {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let changing = scope.spawn(|| {
                let mut number = 0;
                while !is_over.load(Relaxed) {
                    let tier = if number % 2 == 0 { "pro" } else { "free" };
                    let next = node.view.version().revision.number + 1;
                    if let Ok(change) = client(number * 7_919 % clients, tier)
                        && let Ok(view) = node.view.apply(&Update::new(version(next), vec![change]))
                    {
                        limiter.install(view.policy());
                        node.view = view;
                    }
                    number += 1;
                    thread::sleep(CHANGE_INTERVAL);
                }
            });
            let nanos = check(turn);
            is_over.store(true, Relaxed);
            let _ = changing.join();
            nanos
        })
    });
    let row = Row {
        spread: Some(comparison.spread()),
        ..Row::figure("catalog/check_while_changing", comparison.ratio(), "x")
    };
    let row = row.with("in_peace_ns", comparison.ours()).with("changing_ns", comparison.peer());
    Ok(vec![row.held_to(Bar::Below(1.25))])
}

fn rule(number: u64, limit: u64) -> Fallible<Change> {
    let rule_id = format!("r{number}");
    let body = json!({
        "rule_id": rule_id, "limit": limit, "window": "1h", "identifier_type": "user_id",
        "applies_to": {"endpoints": [format!("/service-{number}/*")], "user_tiers": ["free", "pro"]},
    });
    change(Kind::Rule, &body)
}

fn client(number: u64, tier: &str) -> Fallible<Change> {
    let user = format!("u{number}");
    let body = json!({"identifier_type": "user_id", "identifier": user, "tier": tier});
    change(Kind::Client, &body)
}

fn change(kind: Kind, body: &serde_json::Value) -> Fallible<Change> {
    let entry = Entry::parse(kind, &body.to_string()).map_err(told)?;
    Ok(Change::created(entry).map_err(|problem| problem.to_string())?)
}

fn version(number: u64) -> Version {
    Version { revision: Revision { epoch: 1, number }, stamp: number }
}

#[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
fn told(problems: Vec<tollgate::Problem>) -> String {
    problems.iter().map(ToString::to_string).collect()
}
