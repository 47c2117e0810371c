//! Builds a limiter.

use std::fmt;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use foldhash::quality::RandomState;
use tollgate_rules::{PathCase, Policy, Problem};
use tollgate_store::{Histogram, MemoryStore, Store};

use crate::clock::{Clock, SystemClock};
use crate::limiter::Limiter;
use crate::penalty::{Banning, Penalties};
use crate::settler::Settler;
use crate::snapshot::Snapshot;
use crate::soft::WarningState;

/// How much memory local counters beside a shared store take: 32 MiB.
const LOCAL_BYTES: usize = 32 << 20;

/// What happens to requests that no rule applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unmatched {
    /// They pass.
    #[default]
    Allow,
    /// They are refused as [`Refusal::Denied`](crate::Refusal::Denied), unless their client is on the allow list.
    Deny,
}

/// The settings of a [`Limiter`].
#[derive(Debug)]
pub struct LimiterBuilder<S = MemoryStore, C = SystemClock> {
    policy: Policy,
    store: S,
    clock: C,
    penalties: Penalties,
    path_case: PathCase,
    unmatched: Unmatched,
    store_durations: Option<Arc<Histogram>>,
}

impl Default for LimiterBuilder {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            store: MemoryStore::new(),
            clock: SystemClock,
            penalties: Penalties::default(),
            path_case: PathCase::default(),
            unmatched: Unmatched::default(),
            store_durations: None,
        }
    }
}

impl<S: Store, C: Clock> LimiterBuilder<S, C> {
    /// Sets the initial policy. Without one, everything passes.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Sets the store.
    #[must_use]
    pub fn store<T: Store>(self, store: T) -> LimiterBuilder<T, C> {
        let Self { policy, clock, penalties, path_case, unmatched, store_durations, .. } = self;
        LimiterBuilder { policy, store, clock, penalties, path_case, unmatched, store_durations }
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock<T: Clock>(self, clock: T) -> LimiterBuilder<S, T> {
        let Self { policy, store, penalties, path_case, unmatched, store_durations, .. } = self;
        LimiterBuilder { policy, store, clock, penalties, path_case, unmatched, store_durations }
    }

    /// Sets how refusals that lead to bans are counted. By default, the limiter counts them in memory.
    #[must_use]
    pub fn penalties(self, penalties: Penalties) -> Self {
        Self { penalties, ..self }
    }

    /// Sets whether paths are case-sensitive, for this policy and all that are installed later. By default they are.
    #[must_use]
    pub fn path_case(self, path_case: PathCase) -> Self {
        Self { path_case, ..self }
    }

    /// Sets what happens to requests that no rule applies to. By default they pass. A check of one rule, or of charges
    /// of the caller's choice, is never unmatched.
    #[must_use]
    pub fn unmatched(self, unmatched: Unmatched) -> Self {
        Self { unmatched, ..self }
    }

    /// Records how long the store takes to settle. By default this is not measured.
    #[must_use]
    pub fn store_durations(self, durations: Arc<Histogram>) -> Self {
        Self { store_durations: Some(durations), ..self }
    }

    /// Builds the limiter.
    #[must_use]
    pub fn build(self) -> Limiter<S, C> {
        self.build_with(Weak::new())
    }

    /// Builds a limiter that finishes a check in the background, on the runtime of tokio, if its caller stops waiting
    /// while the store is called. Otherwise a client could disconnect in time to be neither counted nor banned.
    #[cfg(any(feature = "redis", feature = "postgres", feature = "tower"))]
    #[must_use]
    pub fn build_shared(self) -> Arc<Limiter<S, C>> {
        Arc::new_cyclic(|this| self.build_with(Weak::clone(this)))
    }

    fn build_with(self, this: Weak<Limiter<S, C>>) -> Limiter<S, C> {
        let local_bytes = if self.store.is_shared() { LOCAL_BYTES } else { 0 };
        let policy = self.policy.with_path_case(self.path_case);
        Limiter {
            path_case: self.path_case,
            unmatched: self.unmatched,
            banning: Banning::new(policy.clone()),
            penalties: self.penalties,
            snapshot: ArcSwap::from_pointee(Snapshot::new(policy, None)),
            settler: Settler {
                store: self.store,
                local: MemoryStore::with_bytes(local_bytes),
                durations: self.store_durations,
            },
            clock: self.clock,
            warned: WarningState::new(),
            hasher: RandomState::default(),
            this,
        }
    }
}

/// An invalid policy, with everything that is wrong with it.
#[derive(Clone, Debug)]
pub struct InvalidPolicy(pub Vec<Problem>);

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidPolicy {}
