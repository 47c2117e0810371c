//! Requests that wait in the gateway for their turn: many at once, and some whose clients leave.

mod clients;
mod upstream;

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use clients::{Clients, Waiting};
use tollgate::Stopwatch;
use upstream::Upstream;

use crate::gateway::Gateway;
use tollgate_e2e::until;

/// Connections with their buffers, requests, tasks: whatever a request costs that waits.
const MOST_BYTES_EACH: u64 = 32 << 10;
/// How late half of them may be: a gateway that lets nobody go until something else happens is later.
/// Everything less depends on who else wants the processor: the gateway, its clients and its upstream
/// share it with all other tests.
const LATE: Duration = Duration::from_secs(1);
/// The limiter counts by the clock of the day, timers by another one. They drift apart by less.
const DRIFT: Duration = Duration::from_millis(1);

/// As many as a gateway holds, for all clients.
const MOST_HELD: usize = 10_000;

/// As many as there are places where `TOLLGATE_SOAK_GATEWAY` is set.
struct Size {
    held: usize,
    per_second: u32,
    /// So many units are charged before the first request, so that all have come before one goes.
    ahead: u32,
}

impl Size {
    fn chosen() -> Self {
        if std::env::var_os("TOLLGATE_SOAK_GATEWAY").is_some() {
            Self { held: MOST_HELD, per_second: 1_000, ahead: 15_000 }
        } else {
            Self { held: 1_000, per_second: 500, ahead: 2_500 }
        }
    }

    fn rules(&self) -> String {
        let paced = "identifier_type: global, algorithm: leaky_bucket, burst: 100000";
        let throttle = "action: throttle, throttle: {max_delay_ms: 60000}";
        let limit = self.per_second;
        format!("rules: [{{rule_id: paced, limit: {limit}, window: 1s, {paced}, {throttle}}}]")
    }
}

/// A gateway with a schedule, in times of one stopwatch.
struct Scene {
    gateway: Gateway,
    upstream: Upstream,
    clients: Clients,
    spacing: Duration,
    /// The first turn is between these two.
    first: Range<Duration>,
}

impl Scene {
    fn start(size: &Size) -> Self {
        let stopwatch = Stopwatch::start();
        let upstream = Upstream::start(stopwatch);
        let gateway = Gateway::with_rules(&size.rules(), upstream.address);
        let clients = Clients::new(gateway.address);
        let spacing = Duration::from_secs(1) / size.per_second;
        let before = stopwatch.elapsed();
        let ahead =
            format!("{{\"identifiers\":{{\"user_id\":\"first\"}},\"cost\":{}}}", size.ahead);
        assert_eq!(gateway.server.check(&ahead)["allowed"], true);
        let first = before + spacing * size.ahead..stopwatch.elapsed() + spacing * size.ahead;
        Self { gateway, upstream, clients, spacing, first }
    }

    /// Waits until so many have been charged; who is refused is not.
    fn await_charged(&self, requests: usize) {
        let judged = "tollgate_decisions_total{rule_id=\"paced\",outcome=\"allowed\"}";
        until("requests that wait", || {
            // The first one charged was the one for all that is ahead.
            let charged = self.gateway.count(judged).saturating_sub(1);
            (charged == requests as u64).then_some(())
        });
        assert_eq!(self.upstream.came("").len(), 0, "all are held at once");
    }

    /// How late the requests of a group were for these turns. Each came once, and none before its turn.
    fn lateness(&self, group: &str, turns: Range<usize>) -> Vec<Duration> {
        let came = self.upstream.came(group);
        let paths: BTreeSet<&str> = came.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!((came.len(), paths.len()), (turns.len(), turns.len()), "{group}");
        let late = turns.zip(&came).map(|(turn, (path, moment))| {
            let turn = self.spacing * u32::try_from(turn).expect("a number");
            assert!(*moment + DRIFT >= self.first.start + turn, "{path} is early");
            moment.saturating_sub(self.first.end + turn)
        });
        late.collect()
    }
}

#[test]
fn who_leaves_is_not_forwarded_and_changes_nobodys_turn() {
    let size = Size::chosen();
    let scene = Scene::start(&size);
    let Scene { gateway, clients, upstream, .. } = &scene;
    let memory = || gateway.server.process.peak_memory();
    let (before, all, tenth) = (memory(), size.held, size.held / 10);

    // One group after the other, so that it is known whose turns are when.
    let mut sent = clients.over_http2("/first/a", 3 * tenth);
    sent.extend(clients.over_http1("/first/b", tenth));
    scene.await_charged(4 * tenth);
    let leavers = [clients.over_http2("/left/a", tenth), clients.over_http1("/left/b", tenth)];
    scene.await_charged(6 * tenth);
    sent.extend(clients.over_http2("/second/", 4 * tenth));
    scene.await_charged(all);
    let each = (memory() - before) / all as u64;
    assert!(each <= MOST_BYTES_EACH, "{each} bytes for each that waits");
    if all == MOST_HELD {
        let refused = gateway.get("/refused");
        assert_eq!(refused.status, 429, "{refused:?}");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        assert_eq!(refused.json()["error"]["rule_id"], "paced");
    }
    leavers.iter().flatten().for_each(Waiting::abort);
    // Who comes instead finds the places, but not the turns.
    sent.extend(clients.over_http2("/third/", 2 * tenth));
    scene.await_charged(all + 2 * tenth);

    for waiting in sent {
        assert_eq!(clients.answer(waiting), 200);
    }
    let groups = [
        ("/first/", 0..4 * tenth),
        ("/second/", 6 * tenth..all),
        ("/third/", all..all + 2 * tenth),
    ];
    let mut late: Vec<Duration> =
        groups.into_iter().flat_map(|(group, turns)| scene.lateness(group, turns)).collect();
    assert_eq!(upstream.came("").len(), all, "nobody who left is forwarded");
    late.sort_unstable();
    let [median, p99, most] = [50, 99, 100].map(|part| late[(late.len() - 1) * part / 100]);
    println!(
        "{all} held by the gateway, {} left, {each} bytes each: {median:?} late in the median, {p99:?} at p99, {most:?} at most",
        2 * tenth
    );
    assert!(median <= LATE, "{median:?} late");
}
