//! Replays kept requests against two policies, each with a limiter of its own on the clock of the requests.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tollgate::{
    CheckTarget, Decision, Limiter, ManualClock, MemoryStore, Micros, Policy, Stopwatch, Timestamp,
};

use super::candidate::CandidateCounts;
use super::{CheckOptions, PreviewClient, PreviewFigures, PreviewPoint, PreviewSide};
use crate::observe::recent_traffic::TrafficView;
use crate::observe::recent_traffic::replayed::ReplayedRequest;

/// About how many requests are replayed at most: the last ones.
const MAX_REQUESTS: u64 = 500_000;
/// How long a replay takes at most.
const MAX_DURATION: Duration = Duration::from_secs(10);
/// How often the clock and the caller are looked at, in requests.
const REQUESTS_PER_LOOK: u64 = 512;
/// How much memory the counters of each policy take.
const STORE_BYTES: usize = 32 << 20;
/// How many clients are listed.
const MAX_CLIENTS: usize = 20;
/// About how many points the figures over time have.
const POINTS: u64 = 120;

/// The policies that requests are replayed against.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) in_force: Policy,
    pub(super) changed: Policy,
    /// The ids of candidates in the changed policy whose refusals are counted.
    pub(super) candidates: Vec<String>,
    pub(super) options: CheckOptions,
}

/// What a policy said about a request.
#[derive(Clone, Copy, Debug, Default)]
struct ReplayedOutcome {
    is_refused: bool,
    is_throttled: bool,
    would_refuse: bool,
}

/// What was counted of a client.
#[derive(Clone, Copy, Debug, Default)]
struct ClientCounts {
    requests: u64,
    refused_now: u64,
    refused_then: u64,
}

impl Replay {
    /// Replays the requests of a ring, of one tenant if that is given.
    pub(super) fn run(
        self,
        view: &TrafficView,
        tenant: Option<&str>,
        is_cancelled: &AtomicBool,
    ) -> PreviewFigures {
        let unknown = self.unknown();
        let mut candidates: Vec<CandidateCounts> =
            self.candidates.into_iter().map(CandidateCounts::of).collect();
        let (now, then) =
            (Side::new(self.in_force, self.options), Side::new(self.changed, self.options));
        let (began, mut counts) = (Stopwatch::start(), PreviewCounts::default());
        let mut is_late = false;
        let replayed = view.replay(MAX_REQUESTS, tenant, |request| {
            if counts.requests.is_multiple_of(REQUESTS_PER_LOOK) {
                is_late = began.elapsed() > MAX_DURATION;
                if is_late || is_cancelled.load(Relaxed) {
                    return ControlFlow::Break(());
                }
            }
            let decided = then.check(request);
            for candidate in &mut candidates {
                candidate.add(request.client.number, &decided);
            }
            counts.add(request, now.check(request).into(), decided.into());
            ControlFlow::Continue(())
        });
        let named = |(number, counted): (usize, ClientCounts)| {
            let named = replayed.clients.get(number).cloned().unwrap_or_default();
            let ClientCounts { requests, refused_now, refused_then } = counted;
            let (client, tenant) = (named.client, named.tenant);
            PreviewClient { client, tenant, requests, refused_now, refused_then }
        };
        let is_cut = replayed.is_cut || is_late;
        let (one_in, now, then) = (replayed.one_in, counts.now, counts.then);
        let clients = counts.most_changed().into_iter().map(named).collect();
        PreviewFigures {
            span: counts.span,
            requests: counts.requests,
            nodes: 1,
            one_in,
            now: PreviewSide { clients: counts.clients(|it| it.refused_now), ..now },
            then: PreviewSide { clients: counts.clients(|it| it.refused_then), ..then },
            clients,
            clients_unchanged: counts
                .clients(|it| if it.refused_now == it.refused_then { it.refused_now } else { 0 }),
            candidates: candidates
                .into_iter()
                .map(|it| {
                    it.figures(MAX_CLIENTS, |number| {
                        replayed.clients.get(number).cloned().unwrap_or_default().client
                    })
                })
                .collect(),
            points: counts.points,
            unknown,
            is_cut,
        }
    }

    /// What the changed policy looks at, and that is kept only if the policy in force does too.
    fn unknown(&self) -> Vec<String> {
        let known = self.in_force.rules().referenced();
        let changed = self.changed.rules().referenced().iter();
        let unknown = changed.filter(|it| {
            let mut known = known.iter();
            // A header that was counted by is kept as its digest, which no pattern matches.
            !known.any(|known| {
                known.identifier == it.identifier
                    && (known.is_counted == it.is_counted || !known.is_counted)
            })
        });
        unknown.map(|it| it.identifier.to_string()).collect()
    }
}

/// A limiter for one policy, on the clock of the requests.
struct Side {
    limiter: Limiter<MemoryStore, ManualClock>,
}

impl Side {
    fn new(policy: Policy, options: CheckOptions) -> Self {
        let CheckOptions { path_case, unmatched } = options;
        let clock = ManualClock::at(Timestamp::from_micros(0));
        let limiter = Limiter::builder()
            .policy(policy)
            .store(MemoryStore::with_bytes(STORE_BYTES))
            .clock(clock)
            .path_case(path_case)
            .unmatched(unmatched)
            .build();
        Self { limiter }
    }

    fn check(&self, request: &ReplayedRequest<'_>) -> Decision {
        self.limiter.clock().set(request.at);
        let target = match request.asked_rule() {
            Some(rule_id) => CheckTarget::Rule(rule_id, request),
            None => CheckTarget::Request(request),
        };
        self.limiter.check(target).now()
    }
}

impl From<Decision> for ReplayedOutcome {
    fn from(decision: Decision) -> Self {
        Self {
            is_refused: !decision.is_allowed(),
            is_throttled: decision.delay().is_some_and(|delay| delay > Micros::ZERO),
            would_refuse: decision.is_allowed() && decision.would_refuse().is_some(),
        }
    }
}

/// The counts of a replay.
#[derive(Debug, Default)]
struct PreviewCounts {
    span: Option<(Timestamp, Timestamp)>,
    requests: u64,
    now: PreviewSide,
    then: PreviewSide,
    /// By the numbers of clients.
    clients: Vec<ClientCounts>,
    points: Vec<PreviewPoint>,
    /// The length of a point: a second at first.
    step: Micros,
}

impl PreviewCounts {
    fn add(&mut self, request: &ReplayedRequest<'_>, now: ReplayedOutcome, then: ReplayedOutcome) {
        let (first, _) = self.span.unwrap_or((request.at, request.at));
        self.span = Some((first, request.at));
        self.requests += 1;
        for (side, outcome) in [(&mut self.now, now), (&mut self.then, then)] {
            side.refused += u64::from(outcome.is_refused);
            side.throttled += u64::from(outcome.is_throttled);
            side.would_refuse += u64::from(outcome.would_refuse);
        }
        let number = request.client.number;
        if self.clients.len() <= number {
            self.clients.resize(number + 1, ClientCounts::default());
        }
        if let Some(client) = self.clients.get_mut(number) {
            client.requests += 1;
            client.refused_now += u64::from(now.is_refused);
            client.refused_then += u64::from(then.is_refused);
        }
        let point = self.point(first, request.at);
        point.requests += 1;
        point.refused_now += u64::from(now.is_refused);
        point.refused_then += u64::from(then.is_refused);
    }

    /// The point of a time. When there are too many, two become one.
    fn point(&mut self, first: Timestamp, at: Timestamp) -> &mut PreviewPoint {
        if self.step == Micros::ZERO {
            self.step = Micros::from_secs(1);
        }
        let place = |step: Micros| at.as_micros() / step.get() - first.as_micros() / step.get();
        while place(self.step) >= 2 * POINTS {
            self.step = self.step.plus(self.step);
            self.halve(first);
        }
        let begin = first.as_micros() / self.step.get();
        let place = usize::try_from(place(self.step)).unwrap_or(0);
        while self.points.len() <= place {
            let at = (begin + self.points.len() as u64) * self.step.get();
            self.points.push(PreviewPoint { at: Timestamp::from_micros(at), ..Default::default() });
        }
        &mut self.points[place]
    }

    /// Adds points up that are within the same step.
    fn halve(&mut self, first: Timestamp) {
        let (step, begin) = (self.step.get(), first.as_micros() / self.step.get());
        let mut halved: Vec<PreviewPoint> = Vec::new();
        for point in self.points.drain(..) {
            let number = point.at.as_micros() / step;
            let place = usize::try_from(number.saturating_sub(begin)).unwrap_or(0);
            while halved.len() <= place {
                let at = Timestamp::from_micros((begin + halved.len() as u64) * step);
                halved.push(PreviewPoint { at, ..Default::default() });
            }
            halved[place].requests += point.requests;
            halved[place].refused_now += point.refused_now;
            halved[place].refused_then += point.refused_then;
        }
        self.points = halved;
    }

    fn clients(&self, refused: impl Fn(&ClientCounts) -> u64) -> u64 {
        self.clients.iter().filter(|client| refused(client) > 0).count() as u64
    }

    /// The clients with refusals, those first whose number of refusals changes most.
    fn most_changed(&self) -> Vec<(usize, ClientCounts)> {
        let is_refused = |it: &(usize, ClientCounts)| it.1.refused_now + it.1.refused_then > 0;
        let mut clients: Vec<(usize, ClientCounts)> =
            self.clients.iter().copied().enumerate().filter(is_refused).collect();
        clients.sort_unstable_by_key(|(number, it)| {
            let change = it.refused_now.abs_diff(it.refused_then);
            std::cmp::Reverse((change, it.refused_now.max(it.refused_then), usize::MAX - number))
        });
        clients.truncate(MAX_CLIENTS);
        clients
    }
}

#[cfg(test)]
mod tests;
