//! Bans that hold on all nodes. Refusals are counted in the background, together with other nodes; a ban
//! is in force here at once, and reaches the other nodes through the catalog once that is available.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc};
use tokio::time::sleep;
use tollgate::rules::{Subject, format_time};
use tollgate::{Ban, Offence, Penalties};
use tollgate_catalog::{
    Author, BanEntry, Catalog, CatalogError, Edit, Expect, Intent, Kind, ban_name,
};

use crate::app::state::{ServerState, Shared};
use crate::policy::source::PolicySource;

/// How many refusals may wait to be counted; further ones are lost.
const QUEUE_CAPACITY: usize = 8_192;
/// How many refusals are counted together.
const MAX_COUNTED: usize = 1_024;
/// How long to wait before further bans are made: each time, the policy in force changes.
const BAN_INTERVAL: Duration = Duration::from_millis(10);
/// How many bans are written together.
const MAX_WRITTEN: usize = 200;
/// How long to wait between writes to the catalog.
const WRITE_INTERVAL: Duration = Duration::from_millis(200);
/// The longest delay between retries of a write.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);
/// How often expired bans are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);
/// After how many sweeps bans by removed rules are lifted.
const ORPHANS_EVERY: u32 = 150;
/// How many changes of bans the log keeps: about 30 MB, and many more than nodes apply one by one.
const MAX_BAN_CHANGES: u64 = 100_000;
/// After how many sweeps older changes are removed, if there are new revisions.
const TRIM_EVERY: u32 = 10;
/// After how many sweeps the warning that bans are not made is repeated.
const WARN_EVERY: u32 = 30;

/// Refusals that rules punish, waiting to be counted.
#[derive(Debug)]
pub(crate) struct BanQueue {
    /// The receiver, until `run` takes it.
    offences: Mutex<Option<mpsc::Receiver<Offence>>>,
    /// How many refusals were not counted because the queue was full.
    lost: Arc<AtomicU64>,
    /// How many bans could not be written to the catalog.
    not_kept: AtomicU64,
    /// Notified when there are bans to write.
    banned: Notify,
    /// Held while bans are written or lifted: a lifted ban must not be written afterwards.
    turn: AsyncMutex<()>,
}

impl BanQueue {
    /// A queue, and its sender for a limiter.
    pub(crate) fn new() -> (Self, Penalties) {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let penalties = Penalties::Told(Box::new(move |offence| {
            if sender.try_send(offence).is_err() {
                counted.fetch_add(1, Relaxed);
            }
        }));
        let bans = Self {
            offences: Mutex::new(Some(receiver)),
            lost,
            not_kept: AtomicU64::new(0),
            banned: Notify::new(),
            turn: AsyncMutex::default(),
        };
        (bans, penalties)
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// How many bans hold on this node only, because the catalog cannot keep them.
    pub(crate) fn not_kept(&self) -> u64 {
        self.not_kept.load(Relaxed)
    }
}

/// Counts refusals and bans clients, until it is dropped. A second call returns at once: there is one
/// queue.
pub(crate) async fn run(app: &Shared) {
    let offences = app.bans.offences.lock().take();
    let Some(offences) = offences else { return };
    tokio::join!(count(app, offences), keep(app), sweep(app));
}

async fn count(app: &Shared, mut offences: mpsc::Receiver<Offence>) {
    let mut together = Vec::with_capacity(MAX_COUNTED);
    while offences.recv_many(&mut together, MAX_COUNTED).await > 0 {
        let banned = app.limiter.punish(&together).await;
        together.clear();
        if banned > 0 {
            app.bans.banned.notify_one();
            sleep(BAN_INTERVAL).await;
        }
    }
}

/// Writes the bans of this node to the catalog.
async fn keep(app: &Shared) {
    let PolicySource::Catalog(_) = &app.policy_source else { return };
    let mut pause = WRITE_INTERVAL;
    loop {
        match write_some(app).await {
            Ok(0) => {
                pause = WRITE_INTERVAL;
                app.bans.banned.notified().await;
                continue;
            }
            Ok(_) => pause = WRITE_INTERVAL,
            Err(error) => {
                if pause == WRITE_INTERVAL {
                    tracing::warn!(
                        "bans hold on this node only until they can be written: {error}"
                    );
                }
                pause = (pause * 2).min(MAX_RETRY_DELAY);
            }
        }
        sleep(pause).await;
    }
}

/// Writes some bans; returns how many were processed. A ban that the catalog cannot store does not stop
/// the others: it holds on this node only.
async fn write_some(app: &Shared) -> Result<usize, CatalogError> {
    let Ok(catalog_sync) = app.policy_source.catalog() else { return Ok(0) };
    let _turn = app.bans.turn.lock().await;
    let mut bans = app.limiter.unwritten_bans(MAX_WRITTEN);
    if bans.is_empty() {
        return Ok(0);
    }
    let policy = app.limiter.policy();
    let tenant = |rule_id: &str| policy.rules().find(rule_id)?.tenant.as_deref().map(str::to_owned);
    let entries: Vec<BanEntry> =
        bans.iter().map(|ban| entry_of(ban, tenant(&ban.rule_id))).collect();
    let skipped = Box::pin(catalog_sync.catalog.keep_bans(&entries, app.now())).await?;
    Box::pin(app.sync()).await?;
    let count = bans.len();
    for (at, error) in &skipped {
        let Some(ban) = bans.get(*at) else { continue };
        app.limiter.keep_ban_here(ban);
        if app.bans.not_kept.fetch_add(1, Relaxed) == 0 {
            tracing::warn!(
                rule = &*ban.rule_id,
                "a ban cannot be written to the catalog and holds on this node only: {error}"
            );
        }
    }
    let mut place = 0;
    bans.retain(|_| {
        place += 1;
        !skipped.iter().any(|(at, _)| at + 1 == place)
    });
    app.limiter.hand_over(&bans);
    Ok(count)
}

/// Removes expired bans from memory and from the catalog.
async fn sweep(app: &Shared) {
    let (mut warned_of, mut trimmed_at) = (0, 0);
    for sweeps in 0_u32.. {
        sleep(SWEEP_INTERVAL).await;
        app.limiter.sweep_bans();
        let counts = app.limiter.ban_counts();
        if counts.not_made > warned_of && sweeps.is_multiple_of(WARN_EVERY) {
            warned_of = counts.not_made;
            let rule = app.limiter.last_ban_not_made();
            tracing::warn!(
                bans = counts.in_force,
                not_made = counts.not_made,
                rule = rule.as_deref(),
                "bans are not made: the maximum number of bans is reached"
            );
        }
        let Ok(catalog_sync) = app.policy_source.catalog() else { continue };
        if sweeps.is_multiple_of(ORPHANS_EVERY)
            && let Err(error) = Box::pin(catalog_sync.catalog.lift_orphaned_bans(app.now())).await
        {
            tracing::debug!("bans by rules that are gone are not removed: {error}");
        }
        loop {
            match Box::pin(catalog_sync.catalog.sweep_bans(app.now())).await {
                Ok(0) => break,
                // Lets other writers in.
                Ok(_) => sleep(WRITE_INTERVAL).await,
                Err(error) => {
                    tracing::debug!("bans that have ended are not removed: {error}");
                    break;
                }
            }
        }
        let revision = catalog_sync.view().version().revision.number;
        if sweeps.is_multiple_of(TRIM_EVERY) && revision != trimmed_at {
            trimmed_at = revision;
            trim_log(&catalog_sync.catalog).await;
        }
    }
}

/// Removes old changes of bans from the log.
async fn trim_log(catalog: &Catalog) {
    loop {
        match catalog.trim_ban_log(MAX_BAN_CHANGES).await {
            Ok(0) => return,
            // Lets other writers in.
            Ok(_) => sleep(WRITE_INTERVAL).await,
            Err(error) => {
                tracing::debug!("old changes of bans stay in the log: {error}");
                return;
            }
        }
    }
}

/// A ban as an entry of the catalog.
pub(crate) fn entry_of(ban: &Ban, tenant: Option<String>) -> BanEntry {
    BanEntry {
        rule_id: ban.rule_id.to_string(),
        identifier: ban.subject.values(),
        tenant,
        expires_at: format_time(ban.until),
        lifted: None,
    }
}

/// Lifts bans on all nodes. Returns how many there were. It is completed even if the request that asked
/// for it is cancelled.
pub(crate) async fn lift(
    app: &ServerState,
    author: Author,
    clients: Vec<(Arc<str>, Subject)>,
) -> Result<usize, CatalogError> {
    if clients.is_empty() {
        return Ok(0);
    }
    let app = app.clone();
    let lifting = tokio::spawn(async move { lift_in_turn(&app, &author, &clients).await });
    let lost = || CatalogError::Unknown("the ban may still be there: see the log".to_owned());
    lifting.await.unwrap_or_else(|_| Err(lost()))
}

async fn lift_in_turn(
    app: &Shared,
    author: &Author,
    clients: &[(Arc<str>, Subject)],
) -> Result<usize, CatalogError> {
    let _turn = app.bans.turn.lock().await;
    let mut removed = 0;
    if let Ok(catalog_sync) = app.policy_source.catalog() {
        let removals = clients.iter().map(|(rule_id, subject)| Edit::Remove {
            kind: Kind::Ban,
            name: ban_name(rule_id, &subject.values()),
            expect: Expect::Anything,
        });
        let intent = Intent::Edits(removals.collect());
        let written = catalog_sync.catalog.write(author, intent, app.now(), false);
        removed = Box::pin(written).await?.changes.len();
        // `sync` logs a failure; on this node the ban is lifted anyway.
        let _ = Box::pin(app.sync()).await;
    }
    let here = clients.iter().filter(|(rule_id, subject)| app.limiter.lift_here(rule_id, subject));
    let lifted = removed.max(here.count());
    if lifted > 0 {
        for (rule_id, subject) in clients {
            if let Err(error) = app.limiter.forget_refusals(rule_id, subject).await {
                tracing::warn!("refusals that led to a ban are not forgotten: {error}");
            }
        }
    }
    Ok(lifted)
}

/// Lifts all bans by these rules, on all nodes. Returns how many there were. It is completed even if the
/// request that asked for it is cancelled.
pub(crate) async fn lift_all(
    app: &ServerState,
    author: Author,
    rules: Vec<Arc<str>>,
) -> Result<usize, CatalogError> {
    if rules.is_empty() {
        return Ok(0);
    }
    let app = app.clone();
    let lifting = tokio::spawn(async move { lift_all_in_turn(&app, &author, &rules).await });
    let lost = || CatalogError::Unknown("bans may still be there: see the log".to_owned());
    lifting.await.unwrap_or_else(|_| Err(lost()))
}

async fn lift_all_in_turn(
    app: &Shared,
    author: &Author,
    rules: &[Arc<str>],
) -> Result<usize, CatalogError> {
    let _turn = app.bans.turn.lock().await;
    let banned: Vec<Vec<Subject>> =
        rules.iter().map(|rule_id| app.limiter.banned_by(rule_id)).collect();
    if let Ok(catalog_sync) = app.policy_source.catalog() {
        let edits = rules.iter().map(|rule_id| Edit::LiftBans { rule_id: rule_id.to_string() });
        let intent = Intent::Edits(edits.collect());
        Box::pin(catalog_sync.catalog.write(author, intent, app.now(), false)).await?;
        // `sync` logs a failure; on this node the bans are lifted anyway.
        let _ = Box::pin(app.sync()).await;
    }
    let mut lifted = 0;
    for (rule_id, subjects) in rules.iter().zip(&banned) {
        app.limiter.lift_all_here(rule_id);
        lifted += subjects.len();
        if let Err(error) = app.limiter.forget_refusals_of(rule_id, subjects).await {
            tracing::warn!("refusals that led to bans are not forgotten: {error}");
        }
    }
    Ok(lifted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metric is `tollgate_penalty_refusals_lost_total`.
    #[test]
    fn refusals_that_find_the_queue_full_are_lost_and_counted() {
        let (bans, penalties) = BanQueue::new();
        let Penalties::Told(tell) = penalties else { panic!("a queue") };
        let offence = Offence { rule_id: "r".into(), subject: Subject::new(&["u1"]) };
        (0..QUEUE_CAPACITY).for_each(|_| tell(offence.clone()));
        assert_eq!(bans.lost(), 0);
        (0..3).for_each(|_| tell(offence.clone()));
        assert_eq!(bans.lost(), 3);
    }
}
