//! Follows a catalog that others change too: changes are in force here within a second, and the last
//! rules stay in force while the catalog is unavailable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tollgate::{Micros, Revision, Timestamp};
use tollgate_catalog::{
    Catalog, CatalogError, ChangesSince, PolicyBounds, Role, Token, Update, Version, View,
};

use crate::app::state::StartError;
use crate::policy::policy_copy::PolicyCopy;
use crate::policy::rule_cache::RuleCache;
use crate::policy::start::{LastGood, last_good, open_copy, seed, warn_if_exposed};
use crate::settings::Settings;

/// How often the catalog is polled for changes, besides notifications.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How often the whole catalog is read again.
const FULL_READ_INTERVAL: Duration = Duration::from_mins(5);

/// A catalog, and its state that is in force on this node.
#[derive(Debug)]
pub(crate) struct CatalogSync {
    pub(crate) catalog: Arc<Catalog>,
    /// A copy, from which this node starts when the catalog is unavailable.
    pub(super) copy: Option<Arc<Catalog>>,
    rule_cache: RuleCache,
    pub(crate) policy_copy: PolicyCopy,
    pub(super) view: ArcSwap<View>,
    /// When the view came into force, in microseconds.
    in_force_since: AtomicU64,
    /// When the catalog last responded, in microseconds; 0 if that is not known.
    pub(super) heard_at: AtomicU64,
    /// Whether the tables of the catalog are known to exist.
    is_open: AtomicBool,
    pub(super) is_away: AtomicBool,
    /// Why the last sync failed; `None` if it did not.
    last_error: ArcSwapOption<String>,
    /// How often changes could not be put into force.
    pub(crate) errors: AtomicU64,
    /// Held while the view changes: of two concurrent syncs, the slower one must not win.
    pub(super) turn: Mutex<()>,
    /// Notified when another node reports a change of the catalog.
    pub(crate) woken: Notify,
    /// Notified when this node has written to the catalog, so that it publishes the policy at once.
    pub(crate) written: Notify,
}

impl CatalogSync {
    /// Opens the catalog, or starts without it. A file that cannot be opened is an error: writes could
    /// not be stored.
    pub(crate) async fn open(
        settings: &Settings,
        rule_cache: RuleCache,
        now: Timestamp,
    ) -> Result<Self, StartError> {
        let (url, bounds) = (&settings.catalog, settings.limits.write_bounds());
        let policy_bounds = PolicyBounds { for_redis: settings.store.is_redis(), bounds };
        let catalog = Catalog::new(url.clone(), policy_bounds);
        let copy = match &settings.catalog_copy {
            Some(file) => Some(Arc::new(open_copy(file, policy_bounds, now).await?)),
            None => None,
        };
        for url in [Some(url), copy.as_ref().map(|copy| copy.url())].into_iter().flatten() {
            warn_if_exposed(url);
        }
        // Only a shared catalog can be unavailable, and only its nodes have one policy.
        let policy_copy =
            if url.is_shared() { settings.store.policy_copy(&settings.remote) } else { Ok(None) };
        let policy_copy = PolicyCopy::new(policy_copy.map_err(|it| StartError::new(&it))?);
        let (LastGood { view, heard_at }, is_open) = match catalog.open(seed(), now, false).await {
            Ok(_) => {
                let view = catalog.view().await.map_err(|error| StartError::new(&error))?;
                (LastGood { view, heard_at: Some(now) }, true)
            }
            Err(error @ CatalogError::Away(_)) if url.is_shared() => {
                tracing::error!("{error}; starting from the last good rules");
                (last_good(settings, copy.as_deref(), &policy_copy).await?, false)
            }
            Err(error) => return Err(StartError::new(&error)),
        };
        let catalog_sync = Self {
            catalog: Arc::new(catalog),
            copy,
            rule_cache,
            policy_copy,
            view: ArcSwap::from_pointee(view),
            in_force_since: AtomicU64::new(now.as_micros()),
            heard_at: AtomicU64::new(heard_at.map_or(0, Timestamp::as_micros)),
            is_open: AtomicBool::new(is_open),
            is_away: AtomicBool::new(!is_open),
            last_error: ArcSwapOption::empty(),
            errors: AtomicU64::new(0),
            turn: Mutex::default(),
            woken: Notify::new(),
            written: Notify::new(),
        };
        if is_open {
            catalog_sync.copy_all().await;
            catalog_sync.announce().await;
        }
        Ok(catalog_sync)
    }

    /// Adds a token for the first administrator, and returns it, unless there is an administrator or the
    /// catalog is unavailable. The token can be shown only once, so nothing may fail between this call
    /// and that.
    pub(crate) async fn add_first_admin(
        &self,
        now: Timestamp,
    ) -> Result<Option<String>, StartError> {
        if !self.was_reached() || !self.lacks_admin(now) {
            return Ok(None);
        }
        let (token, secret) = Token::create(Role::Admin).map_err(|it| StartError::new(&it))?;
        let token = Token { name: Some("first-token".to_owned()), ..token };
        let added = self.catalog.add_first_admin(token, now).await;
        Ok(added.map_err(|error| StartError::new(&error))?.then_some(secret))
    }

    /// The secret of the fleet: of the catalog, which makes it, or of the copy; `None` if neither is available.
    pub(crate) async fn fleet_secret(&self) -> Result<Option<String>, CatalogError> {
        if self.was_reached() {
            let secret = self.catalog.fleet_secret().await?;
            if let Some(copy) = &self.copy
                && let Err(error) = copy.keep_fleet_secret(&secret).await
            {
                self.tell_bad_copy(&error);
            }
            return Ok(Some(secret));
        }
        match &self.copy {
            Some(copy) => copy.known_fleet_secret().await,
            None => Ok(None),
        }
    }

    /// Whether the catalog could be opened, at the start or since.
    pub(crate) fn was_reached(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    /// Closes the connections to the catalog and its copy, which writes everything to their files.
    pub(crate) async fn close(&self) {
        self.catalog.close().await;
        if let Some(copy) = &self.copy {
            copy.close().await;
        }
    }

    /// The state of the catalog that is in force.
    pub(crate) fn view(&self) -> arc_swap::Guard<Arc<View>> {
        self.view.load()
    }

    /// Whether the state in force is one of the catalog, which a copy may have kept, and not the built-in rules.
    pub(crate) fn has_policy(&self) -> bool {
        self.view.load().version() != Version::default()
    }

    /// The epoch of the state in force: restored catalogs begin another.
    pub(crate) fn epoch(&self) -> u64 {
        self.view.load().version().revision.epoch
    }

    pub(crate) fn in_force_since(&self) -> Timestamp {
        Timestamp::from_micros(self.in_force_since.load(Relaxed))
    }

    /// The catalog to read from. While it is unavailable, that is the copy of what is in force here, with the time when
    /// the catalog last responded.
    pub(crate) async fn for_reading(&self) -> (&Catalog, Option<Timestamp>) {
        let Some(copy) = &self.copy else { return (&self.catalog, None) };
        let is_away = self.is_away.load(Relaxed)
            || matches!(self.catalog.version().await, Err(CatalogError::Away(_)));
        let in_force = self.view.load().version();
        // A new copy is empty, while rules that are built in are in force.
        let is_kept = |version: Version| version == in_force && version != Version::default();
        if is_away && copy.version().await.is_ok_and(is_kept) {
            return (copy, Some(self.stale_since()));
        }
        (&self.catalog, None)
    }

    /// When the catalog last responded; if that is not known, since when the policy is in force.
    pub(crate) fn stale_since(&self) -> Timestamp {
        self.heard_at().unwrap_or_else(|| self.in_force_since())
    }

    /// How long ago the catalog last responded, if that is known.
    pub(crate) fn silence(&self, now: Timestamp) -> Option<Micros> {
        self.heard_at().map(|heard_at| now.since(heard_at))
    }

    /// Why the catalog cannot be read now, if it cannot.
    pub(crate) fn last_error(&self) -> Option<Arc<String>> {
        self.last_error.load_full()
    }

    pub(super) fn heard_at(&self) -> Option<Timestamp> {
        let micros = self.heard_at.load(Relaxed);
        (micros > 0).then(|| Timestamp::from_micros(micros))
    }

    /// Puts changes into force, if there are any; `install` gets the view before and after.
    pub(crate) async fn sync(
        &self,
        now: Timestamp,
        install: impl Fn(&View, &View),
    ) -> Result<(), CatalogError> {
        let _turn = self.turn.lock().await;
        let synced = self.sync_in_turn(now, install).await;
        match &synced {
            Ok(()) => {
                self.heard_at.store(now.as_micros(), Relaxed);
                self.last_error.store(None);
                if self.is_away.swap(false, Relaxed) {
                    let number = self.view.load().version().revision.number;
                    tracing::info!(revision = number, "the catalog is available again");
                }
            }
            Err(error) => {
                self.last_error.store(Some(Arc::new(error.to_string())));
                if !self.is_away.swap(true, Relaxed) {
                    self.errors.fetch_add(1, Relaxed);
                    tracing::error!("{error}; the last good rules stay in force");
                }
            }
        }
        synced
    }

    async fn sync_in_turn(
        &self,
        now: Timestamp,
        install: impl Fn(&View, &View),
    ) -> Result<(), CatalogError> {
        if !self.is_open.load(Relaxed) {
            self.catalog.open(seed(), now, false).await?;
            self.is_open.store(true, Relaxed);
        }
        let before = self.view.load_full();
        match self.catalog.since(before.version()).await? {
            ChangesSince::Nothing => Ok(()),
            ChangesSince::Changes(update) => {
                let update = Arc::new(update);
                // Rules are compiled on a thread that no request waits for.
                let applied = spawn_blocking({
                    let catalog = Arc::clone(&self.catalog);
                    let (before, update) = (Arc::clone(&before), Arc::clone(&update));
                    move || catalog.follow_view(&before, &update)
                });
                match applied.await {
                    Ok(Ok(view)) => {
                        self.install(&before, view, now, install);
                        self.copy_update(&update, before.version()).await;
                        Ok(())
                    }
                    // Reading the whole catalog repairs or reports any problem.
                    Ok(Err(_)) | Err(_) => self.read_all(&before, now, install).await,
                }
            }
            ChangesSince::TooLong => self.read_all(&before, now, install).await,
            ChangesSince::Restored => {
                let Revision { number, .. } = before.version().revision;
                tracing::warn!(
                    revision = number,
                    "the catalog has another history than the one in force: it was restored; \
                     reading all of it, in a new epoch"
                );
                self.catalog.begin_epoch(before.version(), now).await?;
                self.read_all(&before, now, install).await
            }
        }
    }

    /// Reads the whole catalog again, whether or not changes are reported.
    pub(crate) async fn sync_all(
        &self,
        now: Timestamp,
        install: impl Fn(&View, &View),
    ) -> Result<(), CatalogError> {
        let _turn = self.turn.lock().await;
        let before = self.view.load_full();
        self.read_all(&before, now, install).await
    }

    async fn read_all(
        &self,
        before: &View,
        now: Timestamp,
        install: impl Fn(&View, &View),
    ) -> Result<(), CatalogError> {
        let catalog = Arc::clone(&self.catalog);
        let reading = spawn_blocking(move || Handle::current().block_on(catalog.view()));
        let view = reading.await.map_err(|error| CatalogError::Unusable(error.to_string()))??;
        if view.version() == before.version() {
            return Ok(());
        }
        self.install(before, view, now, install);
        self.copy_all().await;
        Ok(())
    }

    pub(super) fn install(
        &self,
        before: &View,
        view: View,
        now: Timestamp,
        install: impl Fn(&View, &View),
    ) {
        let view = Arc::new(view);
        install(before, &view);
        tracing::debug!(revision = view.version().revision.number, "rules in force");
        self.view.store(view);
        self.in_force_since.store(now.as_micros(), Relaxed);
    }

    /// Publishes the rules in force to other nodes.
    pub(crate) async fn announce(&self) {
        self.rule_cache.publish(self.view.load_full()).await;
    }

    /// Notifies `woken` whenever another node reports a change. Never ends.
    pub(crate) async fn listen(&self) {
        tokio::join!(self.catalog.listen(&self.woken), self.rule_cache.listen(&self.woken));
        std::future::pending::<()>().await;
    }

    async fn copy_all(&self) {
        if let Some(copy) = &self.copy
            && let Err(error) = copy.copy_from(&self.catalog).await
        {
            self.tell_bad_copy(&error);
        }
    }

    async fn copy_update(&self, update: &Update, before: Version) {
        let Some(copy) = &self.copy else { return };
        let copied = match copy.version().await {
            Ok(version) if version == before => copy.follow(update).await,
            Ok(_) => copy.copy_from(&self.catalog).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = copied {
            self.tell_bad_copy(&error);
        }
    }

    pub(super) fn tell_bad_copy(&self, error: &CatalogError) {
        self.errors.fetch_add(1, Relaxed);
        tracing::warn!("the copy that this node would start from is not up to date: {error}");
    }

    /// Waits until there may be changes; returns whether the whole catalog is to be read again.
    pub(crate) async fn wait(&self, looks: &mut u32) -> bool {
        tokio::select! {
            () = self.woken.notified() => {}
            () = self.catalog.changed() => {}
            () = sleep(POLL_INTERVAL) => *looks += 1,
        }
        let is_time =
            u128::from(*looks) * POLL_INTERVAL.as_millis() >= FULL_READ_INTERVAL.as_millis();
        if is_time {
            *looks = 0;
        }
        is_time
    }

    fn lacks_admin(&self, now: Timestamp) -> bool {
        let view = self.view.load();
        let mut tokens = view.tokens().values();
        !tokens.any(|token| token.role == Role::Admin && !token.is_over(now))
    }
}
