//! Bans in force: those of the policy, and over them those that this limiter made and the policy does not have yet,
//! or never will.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::{Charge, Timestamp};
use tollgate_rules::{DirectoryChange, Plan, Policy, Rule, Subject};
use tollgate_store::{Store, StoreError};

use super::Offence;
use super::own_bans::OwnBans;
use super::room::BanBounds;
use crate::clock::Clock;
use crate::limiter::Limiter;
use crate::snapshot::Snapshot;
use crate::target::CheckTarget;

/// How many counters of refusals are reset together.
const RESET_BATCH: usize = 500;

/// A client that a rule refuses for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// The rule.
    pub rule_id: Arc<str>,
    /// The client, as the rule counts.
    pub subject: Subject,
    /// When it ends.
    pub until: Timestamp,
}

/// How many bans there are and were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BanCounts {
    /// Bans that have not ended.
    pub in_force: usize,
    /// Bans that this limiter made.
    pub made: u64,
    /// Bans that were not made, because the limit of all bans, of the rule or of its tenant was reached.
    pub not_made: u64,
}

/// The policy in force, and the bans that this limiter made.
#[derive(Debug)]
pub(crate) struct Banning {
    /// Locked while the policy or its bans change.
    state: Mutex<BanState>,
}

#[derive(Debug)]
struct BanState {
    policy: Policy,
    own: OwnBans,
    made: u64,
    not_made: u64,
    /// The rule of the last ban that was not made.
    not_made_by: Option<Arc<str>>,
}

impl Banning {
    pub(crate) fn new(policy: Policy) -> Self {
        let own = OwnBans::default();
        Self {
            state: Mutex::new(BanState { policy, own, made: 0, not_made: 0, not_made_by: None }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BanState {
    /// Removes local bans that have ended; the policy may have later ones.
    fn end_own(&mut self, now: Timestamp) -> Vec<DirectoryChange> {
        let ended = self.own.end(now);
        ended.iter().map(|ban| self.as_in_policy(&ban.rule_id, &ban.subject)).collect()
    }

    fn as_in_policy(&self, rule_id: &Arc<str>, subject: &Subject) -> DirectoryChange {
        let (rule_id, subject) = (Arc::clone(rule_id), subject.clone());
        match self.policy.directory().ban_end(&rule_id, &subject) {
            Some(until) => DirectoryChange::Ban { rule_id, subject, until },
            None => DirectoryChange::Unban { rule_id, subject },
        }
    }
}

impl From<Ban> for DirectoryChange {
    fn from(Ban { rule_id, subject, until }: Ban) -> Self {
        Self::Ban { rule_id, subject, until }
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Puts another policy in force. Local bans that it has are removed here.
    pub(crate) fn install_under_bans(&self, policy: &Policy) {
        let now = self.clock.now();
        let mut state = self.banning.lock();
        let before = std::mem::replace(&mut state.policy, policy.clone());
        let directory = policy.directory();
        state.own.forget(|ban| {
            let known = directory.ban_end(&ban.rule_id, &ban.subject);
            ban.until <= now
                || known.is_some_and(|end| end > now)
                || !still_bans(&ban.rule_id, &before, policy)
        });
        let policy = if state.own.len() == 0 {
            policy.clone()
        } else {
            policy.with_directory(directory.apply(state.own.all().map(DirectoryChange::from)))
        };
        let before = self.snapshot.load();
        self.snapshot.store(Arc::new(Snapshot::new(policy, Some(&before))));
    }

    /// Bans clients at once, on this limiter alone, as far as their rules may have more bans. Returns how many were
    /// not banned before.
    pub fn ban(&self, bans: impl IntoIterator<Item = Ban>) -> usize {
        let now = self.clock.now();
        let mut state = self.banning.lock();
        let snapshot = self.snapshot.load_full();
        let directory = snapshot.policy.directory();
        let known = |ban: &Ban| directory.ban_end(&ban.rule_id, &ban.subject);
        let mut new =
            bans.into_iter().filter(|ban| known(ban).is_none_or(|end| end <= now)).peekable();
        if new.peek().is_none() {
            return 0;
        }
        let (mut changes, mut made) = (state.end_own(now), 0);
        let rules = snapshot.policy.rules();
        let mut room = if changes.is_empty() {
            BanBounds::new(rules, directory)
        } else {
            BanBounds::new(rules, &directory.apply(changes.iter().cloned()))
        };
        for ban in new {
            if !room.take(&ban.rule_id, rules.find(&ban.rule_id)) {
                state.not_made += 1;
                state.not_made_by = Some(ban.rule_id);
                continue;
            }
            state.own.insert(ban.clone());
            changes.push(ban.into());
            made += 1;
        }
        state.made += made as u64;
        self.change_directory(changes);
        made
    }

    /// Lifts the ban of a client by a rule on this limiter, and if there was one, resets the refusals that led to it.
    /// Returns whether there was one.
    ///
    /// # Errors
    /// The ban is lifted, but the store could not reset the refusals.
    pub async fn lift(&self, rule_id: &str, subject: &Subject) -> Result<bool, StoreError> {
        let was_banned = self.lift_here(rule_id, subject);
        if was_banned {
            self.forget_refusals(rule_id, subject).await?;
        }
        Ok(was_banned)
    }

    /// Resets how often a rule has refused a client.
    ///
    /// # Errors
    /// The store failed.
    pub async fn forget_refusals(
        &self,
        rule_id: &str,
        subject: &Subject,
    ) -> Result<(), StoreError> {
        let policy = self.policy();
        let penalty = policy.rules().find(rule_id).and_then(|rule| rule.penalty.as_deref());
        match penalty {
            Some(penalty) => self.settler.reset(&[self.refusals_key(penalty, subject)]).await,
            None => Ok(()),
        }
    }

    /// Lifts the ban of a client by a rule on this limiter; the refusals that led to it still count. Returns whether
    /// there was one.
    pub fn lift_here(&self, rule_id: &str, subject: &Subject) -> bool {
        let now = self.clock.now();
        let mut state = self.banning.lock();
        let snapshot = self.snapshot.load_full();
        let Some(end) = snapshot.policy.directory().ban_end(rule_id, subject) else {
            return false;
        };
        state.own.forget_one(rule_id, subject);
        let (rule_id, subject) = (rule_id.into(), subject.clone());
        self.change_directory(vec![DirectoryChange::Unban { rule_id, subject }]);
        end > now
    }

    /// The clients that a rule has banned.
    #[must_use]
    pub fn banned_by(&self, rule_id: &str) -> Vec<Subject> {
        self.policy().directory().banned_by(rule_id)
    }

    /// Lifts all bans by a rule on this limiter; the refusals that led to them still count. Returns how
    /// many there were.
    pub fn lift_all_here(&self, rule_id: &str) -> usize {
        let mut state = self.banning.lock();
        let lifted = self.snapshot.load().policy.directory().bans_of_rule(rule_id);
        state.own.forget(|ban| &*ban.rule_id == rule_id);
        if lifted > 0 {
            self.change_directory(vec![DirectoryChange::UnbanAll { rule_id: rule_id.into() }]);
        }
        lifted
    }

    /// Resets how often a rule has refused these clients.
    ///
    /// # Errors
    /// The store failed.
    pub async fn forget_refusals_of(
        &self,
        rule_id: &str,
        subjects: &[Subject],
    ) -> Result<(), StoreError> {
        let policy = self.policy();
        let penalty = policy.rules().find(rule_id).and_then(|rule| rule.penalty.as_deref());
        let Some(penalty) = penalty else { return Ok(()) };
        for batch in subjects.chunks(RESET_BATCH) {
            let keys: Vec<_> =
                batch.iter().map(|subject| self.refusals_key(penalty, subject)).collect();
            self.settler.reset(&keys).await?;
        }
        Ok(())
    }

    /// Lifts the bans that a plan meets. Returns which clients could have been banned by it.
    pub(crate) fn lift_planned(&self, plan: &Plan, policy: &Policy) -> Vec<Offence> {
        let clients = punishable(plan, policy).map(|(rule, charge)| Offence {
            rule_id: Arc::clone(&rule.id),
            subject: policy.directory().subject_of(rule, &charge.key),
        });
        let clients: Vec<Offence> = clients.collect();
        for Offence { rule_id, subject } in &clients {
            self.lift_here(rule_id, subject);
        }
        clients
    }

    /// Up to `most` of the bans that this limiter made and the policy does not have, those first that end first.
    #[must_use]
    pub fn own_bans(&self, most: usize) -> Vec<Ban> {
        self.banning.lock().own.all().take(most).collect()
    }

    /// Up to `most` of the bans that still have to be written to a catalog, those first that end first.
    #[must_use]
    pub fn unwritten_bans(&self, most: usize) -> Vec<Ban> {
        self.banning.lock().own.unwritten().take(most).collect()
    }

    /// Keeps a ban that cannot be written to a catalog: it stays in force on this limiter alone.
    pub fn keep_ban_here(&self, ban: &Ban) {
        self.banning.lock().own.keep_here(&ban.rule_id, &ban.subject);
    }

    /// The rule of the last ban that was not made because there were too many.
    #[must_use]
    pub fn last_ban_not_made(&self) -> Option<Arc<str>> {
        self.banning.lock().not_made_by.clone()
    }

    /// Removes local bans: the policy has them, or a later state of them.
    pub fn hand_over(&self, bans: &[Ban]) {
        let mut state = self.banning.lock();
        let mut changes = Vec::new();
        for ban in bans {
            if state.own.forget_one(&ban.rule_id, &ban.subject) {
                changes.push(state.as_in_policy(&ban.rule_id, &ban.subject));
            }
        }
        self.change_directory(changes);
    }

    /// Removes bans of this limiter that have ended.
    pub fn sweep_bans(&self) {
        let now = self.clock.now();
        let mut state = self.banning.lock();
        let ended = state.end_own(now);
        self.change_directory(ended);
    }

    /// How many bans are in force, were made, and were not made.
    #[must_use]
    pub fn ban_counts(&self) -> BanCounts {
        let (made, not_made) = {
            let state = self.banning.lock();
            (state.made, state.not_made)
        };
        let snapshot = self.snapshot.load();
        let in_force = snapshot.policy.directory().bans_in_force(self.clock.now());
        BanCounts { in_force, made, not_made }
    }

    /// The bans that a request meets, under every rule that applies to it.
    #[must_use]
    pub fn bans_of<'t>(&self, target: impl Into<CheckTarget<'t>>) -> Vec<Ban> {
        let decision = self.planned(target.into());
        bans_in(&decision.parts.plan, &decision.snapshot.policy)
    }

    /// The caller has locked the state.
    fn change_directory(&self, changes: Vec<DirectoryChange>) {
        if changes.is_empty() {
            return;
        }
        let before = self.snapshot.load();
        let directory = before.policy.directory().apply(changes);
        let policy = before.policy.with_directory(directory);
        self.snapshot.store(Arc::new(Snapshot::new(policy, Some(&before))));
    }
}

/// Whether bans that a rule made under one policy are still valid under the next: they depend on the rule, its
/// penalty, and the identifiers that it counts by.
fn still_bans(rule_id: &str, before: &Policy, after: &Policy) -> bool {
    match (before.rules().find(rule_id), after.rules().find(rule_id)) {
        (_, None) => false,
        (Some(before), Some(after)) => {
            after.penalty.is_some() && before.identifiers == after.identifiers
        }
        (None, Some(after)) => after.penalty.is_some(),
    }
}

/// The charges of a plan whose rules ban.
fn punishable<'a>(
    plan: &'a Plan,
    policy: &'a Policy,
) -> impl Iterator<Item = (&'a Rule, Charge<'a>)> {
    let rules = policy.rules();
    plan.planned().iter().enumerate().filter_map(move |(line, planned)| {
        let rule = rules.get(planned.rule).filter(|rule| rule.penalty.is_some())?;
        Some((rule, plan.charge(line, rules)?))
    })
}

fn bans_in(plan: &Plan, policy: &Policy) -> Vec<Ban> {
    let directory = policy.directory();
    let bans = punishable(plan, policy).filter_map(|(rule, charge)| {
        let subject = directory.subject_of(rule, &charge.key);
        let until = directory.ban_end(&rule.id, &subject)?;
        Some(Ban { rule_id: Arc::clone(&rule.id), subject, until })
    });
    bans.collect()
}
