//! Requests that the gateway delays: many at once, and some whose clients disconnect.

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

/// What a delayed request may cost: connection, buffers, request and task.
const MAX_BYTES_EACH: u64 = 32 << 10;
/// How late half of them may be: a gateway that wakes delayed requests only by other events is later.
/// A smaller bound would depend on the load: the gateway, its clients and its upstream share the
/// processor with all other tests.
const LATE: Duration = Duration::from_secs(1);
/// The limiter uses the wall clock, timers a monotonic one. They drift apart by less than this.
const DRIFT: Duration = Duration::from_millis(1);

/// The most delayed requests of a gateway, for all clients.
const MAX_HELD: usize = 10_000;

/// The size of the test: all places of the gateway where `TOLLGATE_SOAK_GATEWAY` is set.
struct Size {
    held: usize,
    per_second: u32,
    /// Units charged before the first request, so that all requests arrive before one leaves.
    ahead: u32,
}

impl Size {
    fn chosen() -> Self {
        if std::env::var_os("TOLLGATE_SOAK_GATEWAY").is_some() {
            Self { held: MAX_HELD, per_second: 1_000, ahead: 15_000 }
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

    /// Waits until so many have been charged; refused requests are not.
    fn await_charged(&self, requests: usize) {
        let judged = "tollgate_decisions_total{rule_id=\"paced\",outcome=\"allowed\"}";
        until("requests that wait", || {
            // The first charge is the one of `ahead` units.
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
fn a_cancelled_request_is_not_forwarded_and_changes_no_turn() {
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
    assert!(each <= MAX_BYTES_EACH, "{each} bytes for each that waits");
    if all == MAX_HELD {
        let refused = gateway.get("/refused");
        assert_eq!(refused.status, 429, "{refused:?}");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        assert_eq!(refused.json()["error"]["rule_id"], "paced");
    }
    leavers.iter().flatten().for_each(Waiting::abort);
    // New requests get the freed places, but not the turns.
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
    assert_eq!(upstream.came("").len(), all, "cancelled requests are not forwarded");
    late.sort_unstable();
    let [median, p99, most] = [50, 99, 100].map(|part| late[(late.len() - 1) * part / 100]);
    println!(
        "{all} held by the gateway, {} left, {each} bytes each: {median:?} late in the median, {p99:?} at p99, {most:?} at most",
        2 * tenth
    );
    assert!(median <= LATE, "{median:?} late");
}
