//! Putting a limiter together.

use std::fmt;

use arc_swap::ArcSwap;
use foldhash::quality::RandomState;
use tollgate_rules::{PathCase, Policy, Problem};
use tollgate_store::{MemoryStore, Store};

use crate::clock::{Clock, SystemClock};
use crate::counting::Counting;
use crate::installed::Installed;
use crate::limiter::Limiter;
use crate::penalty::{Banning, Penalties};
use crate::soft::Warned;

/// How much memory a limiter takes beside a shared store, to count on its own: 32 MiB.
const OWN_BYTES: usize = 32 << 20;

/// Settings of a [`Limiter`] to be.
#[derive(Debug)]
pub struct LimiterBuilder<S = MemoryStore, C = SystemClock> {
    policy: Policy,
    store: S,
    clock: C,
    penalties: Penalties,
    path_case: PathCase,
}

impl Default for LimiterBuilder {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            store: MemoryStore::new(),
            clock: SystemClock,
            penalties: Penalties::default(),
            path_case: PathCase::default(),
        }
    }
}

impl<S: Store, C: Clock> LimiterBuilder<S, C> {
    /// The policy to begin with. Without one, everything passes.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Where counters live.
    #[must_use]
    pub fn store<T: Store>(self, store: T) -> LimiterBuilder<T, C> {
        let Self { policy, clock, penalties, path_case, .. } = self;
        LimiterBuilder { policy, store, clock, penalties, path_case }
    }

    /// Where the time comes from.
    #[must_use]
    pub fn clock<T: Clock>(self, clock: T) -> LimiterBuilder<S, T> {
        let Self { policy, store, penalties, path_case, .. } = self;
        LimiterBuilder { policy, store, clock, penalties, path_case }
    }

    /// Who counts the refusals that lead to bans. Without a word, the limiter does, in memory.
    #[must_use]
    pub fn penalties(self, penalties: Penalties) -> Self {
        Self { penalties, ..self }
    }

    /// Whether capital letters in paths matter, for this policy and all that are installed later. They do
    /// unless said otherwise.
    #[must_use]
    pub fn path_case(self, path_case: PathCase) -> Self {
        Self { path_case, ..self }
    }

    /// The limiter.
    #[must_use]
    pub fn build(self) -> Limiter<S, C> {
        let own_bytes = if self.store.is_shared() { OWN_BYTES } else { 0 };
        let policy = self.policy.with_path_case(self.path_case);
        Limiter {
            path_case: self.path_case,
            banning: Banning::new(policy.clone()),
            penalties: self.penalties,
            installed: ArcSwap::from_pointee(Installed::new(policy, None)),
            counting: Counting { shared: self.store, own: MemoryStore::with_bytes(own_bytes) },
            clock: self.clock,
            warned: Warned::new(),
            hasher: RandomState::default(),
        }
    }
}

/// A policy that cannot be put in force, with everything that is wrong with it.
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
