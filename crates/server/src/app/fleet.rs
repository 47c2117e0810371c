//! The fleet that a node belongs to: all its nodes have one secret. Nodes count together in a store only if their
//! secrets are the same.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use tollgate::Stopwatch;
use tollgate::identity::Secret;
use tollgate::store::{FleetGate, StoreMark, StoreNumber, StoreUrl};

use crate::app::fleet_secret::FleetSecret;
use crate::app::state::{Shared, StartError};
use crate::check::sealed_id::IdSealer;
use crate::policy::source::PolicySource;
use crate::settings::Settings;

/// How long a start waits for the store before it goes on without.
const START_TIMEOUT: Duration = Duration::from_millis(500);
/// How often a store that does not respond is asked.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How often a store is asked that this node may not use.
const REFUSED_INTERVAL: Duration = Duration::from_secs(1);
/// How long a store has to be without a mark before a running node claims it in which it never counted. Nodes that did
/// restore their mark sooner: else one with a wrong secret could take the store from its fleet when it loses its data.
const CLAIM_DELAY: Duration = Duration::from_secs(10);
/// How often a store in use is asked whether it still is the fleet's: it may have lost its mark, or been replaced.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);
/// How often a store that no request calls is probed: the age of its health and metrics.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// What a node knows of its fleet.
#[derive(Debug)]
pub(crate) struct Fleet {
    secret: OnceLock<Arc<FleetSecret>>,
    previous: Option<Secret>,
    /// The mark in the store, as far as is known.
    mark: Mutex<StoreMark>,
    /// Whether this node has counted in the store.
    has_counted: AtomicBool,
    store: StoreUrl,
    gate: FleetGate,
    sealer: Arc<IdSealer>,
}

/// Whose store it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StoreOwner {
    Us,
    Others,
    /// No fleet, and it was not claimed.
    Unmarked,
    /// It cannot be reached, or the secret is not known yet: why.
    Unknown(String),
}

impl Fleet {
    /// The fleet of these settings. `gate` is that of its store.
    pub(crate) fn new(settings: &Settings, gate: FleetGate, sealer: Arc<IdSealer>) -> Self {
        let store = settings.store.clone();
        let previous = settings.fleet_previous_secret.clone();
        let mark = Mutex::new(StoreMark::Ours);
        let (secret, has_counted) = (OnceLock::new(), AtomicBool::new(false));
        let fleet = Self { secret, previous, mark, has_counted, store, gate, sealer };
        if let Some(given) = &settings.fleet_secret {
            fleet.learn(Secret::expose(given));
        }
        fleet
    }

    fn learn(&self, secret: &str) {
        let previous = self.previous.as_ref().map(Secret::expose);
        let _ = self.secret.set(Arc::new(FleetSecret::new(secret, previous)));
        // With counters in memory there is nothing that another node could refund.
        if self.store.is_shared() {
            self.sealer.learn(secret, previous);
        }
    }

    /// Seals with the secret that all nodes know which count in a store with this mark, and logs a change of it.
    fn follow(&self, mark: StoreMark) {
        if std::mem::replace(&mut *self.mark.lock(), mark) != mark {
            tell_mark(mark);
        }
        let is_previous = mark == StoreMark::Previous;
        self.sealer.use_previous(is_previous);
        let secret = self.secret.get();
        if let Some(secret) = secret {
            secret.use_previous(is_previous);
        }
        // Nodes without a secret do not hide subjects, so those that count with them do not either.
        let secret = secret.filter(|_| mark != StoreMark::NoSecret);
        self.gate.set_counter_key(secret.and_then(|secret| secret.counter_key()));
    }

    /// Seals for this store from now on, and logs it if it was another.
    fn know_store(&self, number: StoreNumber) {
        let before = self.sealer.use_store(number);
        if before.is_some_and(|before| before != number.get()) {
            tracing::warn!(
                store = %self.store,
                "the store lost its data, or was replaced; decisions made before cannot be refunded"
            );
        }
    }

    /// The secret, if it is known.
    pub(crate) fn secret(&self) -> Option<&Arc<FleetSecret>> {
        self.secret.get()
    }

    /// Whether the store is the fleet's, as far as is known.
    pub(crate) fn owns_store(&self) -> bool {
        self.gate.is_open()
    }

    /// Whether nodes count together.
    pub(crate) fn has_shared_store(&self) -> bool {
        self.store.is_shared()
    }

    fn others_own_it(&self) -> String {
        if self.has_counted.load(Relaxed) {
            return format!(
                "the store {} belongs to another fleet now, although this node has counted there: a node with another \
                 secret, or none, marked it after it had lost its data, or this node was left out when the secret \
                 changed. If that node is wrong, stop it and delete the mark (the key `fleet` with the prefix of the \
                 store, or the row `fleet`)",
                self.store
            );
        }
        format!(
            "the store {} belongs to another fleet: its nodes have another secret, or none. Use their catalog, set \
             TOLLGATE_FLEET_SECRET or fleet.secret_file to their secret, or choose another store or prefix. If you are \
             changing the secret, set the old one as TOLLGATE_FLEET_PREVIOUS_SECRET or fleet.previous_secret_file",
            self.store
        )
    }
}

/// Says with whom a node counts.
fn tell_mark(mark: StoreMark) {
    match mark {
        StoreMark::Previous => tracing::info!(
            "nodes with the previous secret count in the store; this node counts with them, and the new secret is used \
             once they have ended"
        ),
        StoreMark::NoSecret => tracing::warn!(
            "nodes without a secret count in the store; this node counts with them, until they have ended"
        ),
        StoreMark::Ours | StoreMark::Others | StoreMark::Absent => {
            tracing::info!("the store is marked with the fleet's secret");
        }
    }
}

impl Shared {
    /// Claims a shared store for the fleet, as the last step of a start. A store that does not respond is claimed
    /// later: see [`Shared::keep_store`].
    pub(crate) async fn claim_store(&self) -> Result<(), StartError> {
        let began = Stopwatch::start();
        loop {
            match self.store_owner(true).await {
                StoreOwner::Others => return Err(StartError::new(&self.fleet.others_own_it())),
                StoreOwner::Us => return Ok(()),
                StoreOwner::Unknown(why) if began.elapsed() > START_TIMEOUT => {
                    let store = &self.fleet.store;
                    tracing::warn!(%store, "{why}; until it can be used, on_store_failure of each rule applies");
                    return Ok(());
                }
                StoreOwner::Unknown(_) | StoreOwner::Unmarked => sleep(RETRY_INTERVAL).await,
            }
        }
    }

    /// Keeps a shared store open while it is the fleet's, until it is dropped.
    pub(crate) async fn keep_store(&self) {
        let mut last = StoreOwner::Us;
        // One line when the store is lost to others, one when it can be used. A store that does not respond is reported by
        // its circuit breaker.
        let mut is_awaited = self.fleet.has_shared_store() && !self.fleet.owns_store();
        let mut is_lost = false;
        let mut unmarked: Option<Stopwatch> = None;
        loop {
            sleep(match last {
                StoreOwner::Us => RECHECK_INTERVAL,
                StoreOwner::Others | StoreOwner::Unmarked => REFUSED_INTERVAL,
                StoreOwner::Unknown(_) => RETRY_INTERVAL,
            })
            .await;
            let has_waited = unmarked.is_some_and(|it| it.elapsed() >= CLAIM_DELAY);
            let may_claim = has_waited || self.fleet.has_counted.load(Relaxed);
            let owner = self.store_owner(may_claim).await;
            unmarked = match owner {
                StoreOwner::Unmarked => unmarked.or_else(|| Some(Stopwatch::start())),
                _ => None,
            };
            if owner == StoreOwner::Others && !std::mem::replace(&mut is_lost, true) {
                is_awaited = true;
                let why = self.fleet.others_own_it();
                tracing::error!("{why}; until then on_store_failure of each rule applies");
            }
            if owner == StoreOwner::Us && std::mem::take(&mut is_awaited) {
                is_lost = false;
                tracing::info!(store = %self.fleet.store, "the store can be used");
            }
            last = owner;
        }
    }

    /// Probes the servers of a shared store while no request calls them or their circuit breakers are open, until it is
    /// dropped. A node without traffic would otherwise not notice that its store went away, or came back.
    pub(crate) async fn probe_store(&self) {
        while self.fleet.has_shared_store() {
            sleep(PROBE_INTERVAL).await;
            while self.limiter.store().probe_idle().await {
                sleep(RETRY_INTERVAL).await;
            }
        }
    }

    /// Asks a shared store whose it is, claims it if it is unmarked and `may_claim`, and opens or closes its gate
    /// accordingly. A store that does not respond stays as it is: its circuit breakers know best.
    async fn store_owner(&self, may_claim: bool) -> StoreOwner {
        let store = self.limiter.store();
        if !self.fleet.store.is_shared() {
            return StoreOwner::Us;
        }
        self.learn_secret().await;
        let secret = self.fleet.secret.get();
        // With a catalog there is a secret, which is not known yet.
        if secret.is_none() && matches!(self.policy_source, PolicySource::Catalog(_)) {
            return StoreOwner::Unknown("the fleet's secret cannot be read yet".to_owned());
        }
        let mark = secret.map(|secret| secret.mark());
        let previous = secret.and_then(|secret| secret.previous_mark());
        let owner = match store.claim(mark.as_deref(), previous.as_deref(), may_claim).await {
            Ok((StoreMark::Others, _)) => StoreOwner::Others,
            Ok((StoreMark::Absent, _)) => StoreOwner::Unmarked,
            Ok((mark, number)) => {
                self.fleet.has_counted.store(true, Relaxed);
                self.fleet.follow(mark);
                number.into_iter().for_each(|number| self.fleet.know_store(number));
                StoreOwner::Us
            }
            Err(error) => {
                return StoreOwner::Unknown(match std::error::Error::source(&error) {
                    Some(source) => format!("{error}: {source}"),
                    None => error.to_string(),
                });
            }
        };
        self.fleet.gate.set_open(owner == StoreOwner::Us);
        owner
    }

    /// Reads the secret from the catalog or its copy, unless it is known.
    pub(crate) async fn learn_secret(&self) {
        let PolicySource::Catalog(catalog_sync) = &self.policy_source else { return };
        if self.fleet.secret.get().is_some() {
            return;
        }
        match catalog_sync.fleet_secret().await {
            Ok(Some(secret)) => self.fleet.learn(&secret),
            Ok(None) => {}
            Err(error) => tracing::debug!("the fleet's secret cannot be read: {error}"),
        }
    }
}
