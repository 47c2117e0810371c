//! The one place that checks requests and records the decisions: metrics, recent traffic, journal, audit log, span.
//! Every entry point goes through it.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::task::yield_now;
use tollgate::{
    Attributes as _, CheckTarget, Clock as _, Decision, Idempotent, Limiter, Promise, Stopwatch,
    Store as _, UsedKey,
};

use crate::admin::auth::Principal;
use crate::app::state::SharedStore;
use crate::check::decision_id::{DecisionId, IdText};
use crate::check::finish::has_caller_left;
use crate::check::idempotency::{CallDigest, Idempotency, Remembered, key_reused};
use crate::check::journal::Journal;
use crate::check::sealed_id::IdSealer;
use crate::edge::http::problem::Problem;
use crate::edge::http::wire::check::{CheckBody, CheckSubject};
use crate::observe::audit_log::{AuditLog, RequestContext};
use crate::observe::metrics::{EntryPoint, Metrics, RequestOutcome};
use crate::observe::recent_traffic::RecentTraffic;
use crate::observe::traces::note_decision;

/// How many checks of a batch are made before other tasks on the thread may run.
const CHECKS_PER_TURN: usize = 64;
/// How many checks of a batch are made together.
const CHECKS_TOGETHER: usize = Limiter::<SharedStore>::CACHED_BATCH;

/// Checks requests, and records the decisions.
#[derive(Debug)]
pub(crate) struct Checker {
    pub(crate) limiter: Arc<Limiter<SharedStore>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) sealer: Arc<IdSealer>,
    pub(crate) audit_log: Arc<AuditLog>,
    pub(crate) recent_traffic: Arc<RecentTraffic>,
    pub(crate) idempotency: Idempotency,
}

/// How a check is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recording {
    /// Where it arrived.
    pub(crate) entry: EntryPoint,
    /// Whether it counts as a request. A peek does not.
    pub(crate) is_request: bool,
    /// How it ended, if the decision does not tell.
    pub(crate) outcome: Option<RequestOutcome>,
    /// Which decisions have an id.
    pub(crate) naming: Naming,
    /// The call of its idempotency key, which a refund releases.
    pub(crate) call: Option<CallDigest>,
}

/// Which decisions have an id, under which they are kept in the journal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Naming {
    /// All decisions that charged or refused: the caller gets the id.
    Kept,
    /// As `Kept`, but a decision that allows has this id, which was taken before the check.
    Taken(DecisionId),
    /// Decisions that are audited. The client of a proxy sees only the id of a refusal.
    Audited,
}

impl Recording {
    /// A check of the check API.
    pub(crate) fn of(entry: EntryPoint, check: &CheckBody<'_>) -> Self {
        let (is_request, naming) = (check.cost() > 0, Naming::Kept);
        Self { entry, is_request, outcome: None, naming, call: None }
    }

    /// A request through a proxy or the gateway.
    pub(crate) const fn proxied(entry: EntryPoint) -> Self {
        Self { entry, is_request: true, outcome: None, naming: Naming::Audited, call: None }
    }
}

impl Checker {
    /// Checks a request, records the decision, and responds with it and its id. `context` describes the
    /// request; without one, the decision is neither audited nor kept as recent traffic.
    #[inline]
    pub(crate) fn check<'a, 'c, R>(
        &'a self,
        target: CheckTarget<'_>,
        recording: Recording,
        context: impl FnOnce(&Decision) -> Option<RequestContext<'c>> + Send + 'a,
        respond: impl FnOnce(&Decision, Option<&IdText>) -> R + Send + 'a,
    ) -> Promise<'a, R, SharedStore> {
        let stopwatch = Stopwatch::start();
        self.limiter.check(target).map(move |decision| {
            self.metrics.checks.observe(stopwatch.elapsed());
            let id = self.record(&decision, recording, context);
            respond(&decision, id.as_ref())
        })
    }

    /// Checks several requests, each independently, in order, and responds to each.
    pub(crate) async fn check_batch(
        &self,
        entry: EntryPoint,
        checks: &[CheckBody<'_>],
        subjects: &[CheckSubject<'_>],
        mut respond: impl FnMut(usize, &Decision, Option<&IdText>),
    ) {
        let stopwatch = Stopwatch::start();
        let mut finish = |first: usize, decisions: &[Decision]| {
            for (place, decision) in (first..).zip(decisions) {
                let Some(check) = checks.get(place) else { return };
                let recording = Recording::of(entry, check);
                let id = self.record(decision, recording, |_| Some(check.context()));
                respond(place, decision, id.as_ref());
            }
        };
        let check = |first: usize, count: usize| {
            let pairs = checks.iter().zip(subjects).skip(first).take(count);
            let targets: SmallVec<[CheckTarget<'_>; CHECKS_TOGETHER]> =
                pairs.map(|(check, subject)| subject.of(check)).collect();
            self.limiter.check_batch(&targets)
        };
        if self.limiter.store().is_shared() {
            let decisions = check(0, checks.len()).await;
            finish(0, &decisions);
        } else {
            for first in (0..checks.len()).step_by(CHECKS_TOGETHER) {
                let decisions = check(first, CHECKS_TOGETHER).await;
                finish(first, &decisions);
                if (first + CHECKS_TOGETHER).is_multiple_of(CHECKS_PER_TURN) {
                    yield_now().await;
                }
            }
        }
        self.metrics.checks.observe(stopwatch.elapsed());
    }

    /// Checks a request with an idempotency key, or replays the response that it got before. Returns
    /// whether it is a replay. Responses of one `protocol` are not replayed over another.
    pub(crate) async fn check_idempotent(
        &self,
        entry: EntryPoint,
        (caller, protocol, key): (&Principal, &str, &str),
        check: &CheckBody<'_>,
        respond: impl FnOnce(&Decision, Option<&IdText>) -> Remembered + Send,
    ) -> Result<(Remembered, bool), Problem> {
        let now = self.limiter.clock().now();
        let mut turn = self.idempotency.turn(protocol, caller, key, check, now).await?;
        if let Some((response, used_key)) = turn.response() {
            if self.is_in_use(used_key).await {
                return Ok((response.clone(), true));
            }
            turn.forget();
        }
        // A repeated call gets its response also if its rule was removed.
        let subject = check.subject(|| self.limiter.policy())?;
        let (is_allowed, id);
        let mut used_key = None;
        let recording = Recording { call: Some(turn.call()), ..Recording::of(entry, check) };
        let context = |_: &Decision| Some(check.context());
        let (response, is_copy) = if self.limiter.store().is_shared() {
            let stopwatch = Stopwatch::start();
            // Taken before it is known whether it is needed, so that all nodes respond with the same.
            let taken = self.journal.next_id(true);
            let note = taken.text();
            let key = turn.key(&note);
            let checked = self.limiter.check_idempotent(subject.of(check), &key).await;
            self.metrics.checks.observe(stopwatch.elapsed());
            match checked {
                Idempotent::Executed(decision) => {
                    is_allowed = decision.is_allowed();
                    id = Some(taken);
                    if decision.degraded().is_none() {
                        used_key = decision.used_key(turn.call(), &note);
                    }
                    let recording = Recording { naming: Naming::Taken(taken), ..recording };
                    let id = self.record(&decision, recording, context);
                    (respond(&decision, id.as_ref()), false)
                }
                Idempotent::Replayed { decision, note, has_same_charges } => {
                    is_allowed = decision.is_allowed();
                    used_key = decision.used_key(turn.call(), &note);
                    // Any client of the store may have written the note: it is used only if it is an id.
                    id = note.parse().ok();
                    // After a change of rules, an id that was sealed here would refund what the first was not charged.
                    let id = id.filter(|_| is_kept(&decision)).map(|id: DecisionId| {
                        if has_same_charges {
                            self.name(id, &decision, recording.call).1
                        } else {
                            IdText::Short(id.text())
                        }
                    });
                    note_decision(&decision, id.as_ref());
                    (respond(&decision, id.as_ref()), true)
                }
                Idempotent::KeyReused => return Err(key_reused()),
            }
        } else {
            let respond = |decision: &Decision, text: Option<&IdText>| {
                let id = text.and_then(|text| text.parse().ok());
                (decision.is_allowed(), id, respond(decision, text))
            };
            let checked = self.check(subject.of(check), recording, context, respond).await;
            (is_allowed, id) = (checked.0, checked.1);
            (checked.2, false)
        };
        if is_allowed {
            turn.remember(response.clone(), id, used_key);
        }
        Ok((response, is_copy))
    }

    /// Whether a remembered response may be replayed: its decision was not refunded. While the store fails, it may.
    async fn is_in_use(&self, key: Option<&UsedKey>) -> bool {
        match key {
            Some(key) => self.limiter.is_key_used(key).await.unwrap_or(true),
            None => true,
        }
    }

    /// Records a decision. Returns its id, if the response names it.
    #[inline]
    pub(crate) fn record<'c>(
        &self,
        decision: &Decision,
        recording: Recording,
        context: impl FnOnce(&Decision) -> Option<RequestContext<'c>>,
    ) -> Option<IdText> {
        let Recording { entry, is_request, outcome, naming, call } = recording;
        let context = context(decision);
        if is_request && !has_caller_left() {
            let outcome = outcome.unwrap_or_else(|| RequestOutcome::of(entry, decision));
            self.metrics.requests.count(entry, outcome);
            if decision.degraded().is_some() {
                self.metrics.requests.count_degraded();
            }
            if let Some(context) = &context {
                self.recent_traffic.record(decision, outcome, context);
            }
        }
        let is_allowed = decision.is_allowed();
        let is_kept = match naming {
            Naming::Kept | Naming::Taken(_) => is_kept(decision),
            Naming::Audited => !is_allowed || (is_kept(decision) && self.audit_log.wants(decision)),
        };
        let id = is_kept.then(|| {
            let id = match naming {
                Naming::Taken(id) if is_allowed => id,
                _ => self.journal.next_id(is_allowed),
            };
            let (id, text) = self.name(id, decision, call);
            self.journal.record(id, decision, call);
            let is_wanted = matches!(naming, Naming::Audited) || self.audit_log.wants(decision);
            if is_wanted && let Some(context) = &context {
                self.audit_log.note(decision, text.clone(), context);
            }
            text
        });
        let id = id.filter(|_| !is_allowed || !matches!(naming, Naming::Audited));
        note_decision(decision, id.as_ref());
        id
    }

    /// The id of a decision, with what its refund needs if other nodes can refund it.
    #[inline]
    fn name(
        &self,
        id: DecisionId,
        decision: &Decision,
        call: Option<CallDigest>,
    ) -> (DecisionId, IdText) {
        self.sealer.name(id, |out| self.limiter.write_claim(decision, call, out))
    }
}

/// Whether a decision is kept: it charged something or refused the request, or a shadow rule would have.
/// Peeks have nothing to refund, and would evict other decisions.
fn is_kept(decision: &Decision) -> bool {
    !decision.is_allowed() || decision.charged() > 0 || decision.would_refuse().is_some()
}
