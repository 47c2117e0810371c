//! The order of delayed requests, on a manual clock.

use std::time::Duration;

use tokio::runtime::Builder;
use tollgate::{ManualClock, Timestamp};
use tollgate_testbed::tokio_now;

use crate::gate::Gate;
use crate::{HELD, run_alone};

/// One every millisecond, which is what timers can tell apart.
const POLICY: &str = "
rules: [{rule_id: paced, limit: 1000, window: 1s, burst: 1, identifier_type: global, algorithm: gcra, action: throttle, throttle: {max_delay_ms: 30000}}]
";

#[test]
fn delayed_requests_leave_one_by_one_at_their_millisecond() {
    run_alone(Builder::new_current_thread().start_paused(true), one_by_one());
}

async fn one_by_one() {
    let gate = Gate::new(POLICY, ManualClock::at(Timestamp::from_secs(1_700_000_000)), HELD);
    let start = tokio_now();
    assert!(gate.judged(0).await.is_err(), "the first need not wait");
    let mut sent = Vec::with_capacity(HELD);
    for number in 1..=HELD {
        sent.push(gate.judged(number).await.map(tokio::spawn).expect("held"));
    }
    assert_eq!(gate.layer.delayed(), HELD);
    for (number, sent) in (1..).zip(sent) {
        assert!(sent.await.expect("no panic").is_ok());
        assert_eq!(tokio_now() - start, Duration::from_millis(number));
        assert_eq!(gate.layer.delayed() as u64, HELD as u64 - number);
    }
    let order = gate.came().into_iter().map(|(number, _)| number);
    assert!(order.eq(0..=HELD), "in order, each once");
}
