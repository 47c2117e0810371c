//! Replays of a known history.

use super::*;

use tollgate::{Attribute, Attributes as _, Request};

use crate::observe::audit_log::RequestContext;
use crate::observe::metrics::RequestOutcome;
use crate::observe::recent_traffic::RecentTraffic;
use crate::settings::ByteSize;

fn policy(limit: u64) -> Policy {
    let algorithm = "algorithm: fixed_window";
    let text = format!(
        "rules: [{{rule_id: r, limit: {limit}, window: 1m, identifier_type: user_id, {algorithm}}}]"
    );
    Policy::from_text(&text).expect("a policy")
}

/// Ten minutes in which `heavy` sends 10 requests a minute, `light` 2, and `other` of another tenant 10.
fn history() -> RecentTraffic {
    let traffic = RecentTraffic::new(ByteSize::mebibytes(1));
    let clock = ManualClock::at(Timestamp::from_secs(6_000));
    let limiter = Limiter::builder().policy(policy(100)).clock(clock.clone()).build();
    for second in 0..600 {
        for (user, tenant, every) in [("heavy", "a", 6), ("light", "a", 30), ("other", "b", 6)] {
            if second % every == 0 {
                let request = Request::new().user_id(user).tenant(tenant).path("/");
                let decision = limiter.check(&request).now();
                let endpoint = request.get(Attribute::Path);
                let context = RequestContext { endpoint, ..RequestContext::of(&request) };
                traffic.record(&decision, RequestOutcome::Allowed, &context);
            }
        }
        clock.advance(Micros::from_secs(1));
    }
    traffic
}

fn run(now: u64, then: u64, tenant: Option<&str>, is_cancelled: bool) -> PreviewFigures {
    let options = CheckOptions { path_case: Default::default(), unmatched: Default::default() };
    let replay =
        Replay { in_force: policy(now), changed: policy(then), candidates: Vec::new(), options };
    let view = history().view().expect("requests");
    replay.run(&view, tenant, &AtomicBool::new(is_cancelled))
}

#[test]
fn clients_that_are_refused_as_often_are_counted_apart() {
    assert_eq!(run(8, 4, None, false).clients_unchanged, 0);
    assert_eq!(run(8, 8, None, false).clients_unchanged, 2);
    assert_eq!(run(50, 50, None, false).clients_unchanged, 0, "none is refused");
}

#[test]
fn a_change_is_tried_on_the_requests_that_were_made() {
    let figures = run(8, 4, None, false);
    assert_eq!((figures.requests, figures.one_in, figures.is_cut), (220, 1, false));
    let at = |second: u64| Timestamp::from_secs(6_000 + second);
    assert_eq!(figures.span, Some((at(0), at(594))));
    // Of ten requests a minute 8 pass, or 4: by two clients for ten minutes.
    assert_eq!(figures.now, PreviewSide { refused: 40, clients: 2, ..PreviewSide::default() });
    assert_eq!(figures.then, PreviewSide { refused: 120, clients: 2, ..PreviewSide::default() });
    let client = |client: &str, tenant: &str| PreviewClient {
        client: client.to_owned(),
        tenant: Some(tenant.to_owned()),
        requests: 100,
        refused_now: 20,
        refused_then: 60,
    };
    assert_eq!(figures.clients, [client("heavy", "a"), client("other", "b")]);
    let sums = figures.points.iter().fold((0, 0, 0), |sum, it| {
        (sum.0 + it.requests, sum.1 + it.refused_now, sum.2 + it.refused_then)
    });
    assert_eq!(sums, (220, 40, 120), "the points have all requests");
    assert!((60..=240).contains(&figures.points.len()), "{} points", figures.points.len());
    let step = figures.points[1].at.since(figures.points[0].at);
    let is_even = |pair: &[PreviewPoint]| pair[1].at.since(pair[0].at) == step;
    assert!(figures.points.windows(2).all(is_even));
    assert_eq!(figures.points[0].at, at(0));
}

#[test]
fn a_tenant_sees_its_own_requests() {
    let figures = run(8, 4, Some("b"), false);
    assert_eq!((figures.requests, figures.then.refused, figures.then.clients), (100, 60, 1));
    assert_eq!(figures.clients.len(), 1);
    assert_eq!(run(8, 4, Some("c"), false).requests, 0);
}

#[test]
fn a_replay_ends_when_its_caller_leaves() {
    let figures = run(8, 4, None, true);
    assert_eq!((figures.requests, figures.is_cut, figures.span), (0, true, None));
}

#[test]
fn what_was_not_kept_is_named() {
    let changed = "rules: [{rule_id: r, limit: 1, window: 1m, identifier_type: 'header:x-device'}]";
    let changed = Policy::from_text(changed).expect("a policy");
    let options = CheckOptions { path_case: Default::default(), unmatched: Default::default() };
    let replay = Replay { in_force: policy(1), changed, candidates: Vec::new(), options };
    assert_eq!(replay.unknown(), ["header:x-device"]);
}
