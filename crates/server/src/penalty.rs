//! Bans that hold on all nodes. Refusals are counted in the background, together with other nodes; a ban
//! is in force here at once, and the catalog takes it to the others, whenever it can be asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc};
use tokio::time::sleep;
use tollgate::rules::{Subject, format_time};
use tollgate::{Ban, Offence, Penalties};
use tollgate_catalog::{
    Author, Ban as BanEntry, CatalogError, Edit, Entry, Expect, Intent, Kind, ban_name,
};

use crate::rulebook::Rulebook;
use crate::state::{ServerState, Shared};

/// How many refusals may wait to be counted; beyond that, some are lost.
const WAITING: usize = 8_192;
/// How many of them are counted together.
const TOGETHER: usize = 1_024;
/// How long new bans are gathered before the next ones are made: each time, the policy in force changes.
const GATHERED: Duration = Duration::from_millis(10);
/// How many bans are written together,
const WRITTEN: usize = 200;
/// and how long it takes at least until the next ones are.
const PACE: Duration = Duration::from_millis(200);
/// The longest pause after the catalog could not be written.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often bans that have ended are looked for.
const SWEEP: Duration = Duration::from_secs(2);

/// What becomes of refusals that rules punish.
#[derive(Debug)]
pub(crate) struct Penalty {
    /// Until somebody counts them.
    offences: Mutex<Option<mpsc::Receiver<Offence>>>,
    /// How many refusals were not counted, for too many were waiting.
    lost: Arc<AtomicU64>,
    /// There are bans to be written.
    banned: Notify,
    /// Held while bans are written or lifted: one that was lifted must not be written after that.
    turn: AsyncMutex<()>,
}

impl Penalty {
    /// A queue, and the end of it that a limiter gets.
    pub(crate) fn new() -> (Self, Penalties) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let penalties = Penalties::Told(Box::new(move |offence| {
            if sender.try_send(offence).is_err() {
                counted.fetch_add(1, Relaxed);
            }
        }));
        let penalty = Self {
            offences: Mutex::new(Some(receiver)),
            lost,
            banned: Notify::new(),
            turn: AsyncMutex::default(),
        };
        (penalty, penalties)
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

/// Counts refusals and bans clients, until it is dropped. For one caller: there is one queue.
pub(crate) async fn run(app: &Shared) {
    let offences = app.penalty.offences.lock().take();
    let Some(offences) = offences else { return };
    tokio::join!(count(app, offences), keep(app), sweep(app));
}

async fn count(app: &Shared, mut offences: mpsc::Receiver<Offence>) {
    let mut together = Vec::with_capacity(TOGETHER);
    while offences.recv_many(&mut together, TOGETHER).await > 0 {
        let banned = app.limiter.punish(&together).await;
        together.clear();
        if banned > 0 {
            app.penalty.banned.notify_one();
            sleep(GATHERED).await;
        }
    }
}

/// Writes to the catalog what this node has banned.
async fn keep(app: &Shared) {
    let Rulebook::Catalog(_) = &app.rulebook else { return };
    let mut pause = PACE;
    loop {
        match write_some(app).await {
            Ok(0) => {
                pause = PACE;
                app.penalty.banned.notified().await;
                continue;
            }
            Ok(_) => pause = PACE,
            Err(error) => {
                if pause == PACE {
                    tracing::warn!(
                        "bans hold on this node only until they can be written: {error}"
                    );
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        sleep(pause).await;
    }
}

/// Says how many.
async fn write_some(app: &Shared) -> Result<usize, CatalogError> {
    let Ok(follower) = app.rulebook.catalog() else { return Ok(0) };
    let _turn = app.penalty.turn.lock().await;
    let bans = app.limiter.own_bans(WRITTEN);
    if bans.is_empty() {
        return Ok(0);
    }
    let policy = app.limiter.policy();
    let tenant = |rule_id: &str| policy.rules().find(rule_id)?.tenant.as_deref().map(str::to_owned);
    let puts = bans.iter().map(|ban| Edit::Put {
        entry: Entry::Ban(entry_of(ban, tenant(&ban.rule_id))),
        expect: Expect::Anything,
    });
    let (author, intent) = (Author::program("penalty"), Intent::Edits(puts.collect()));
    Box::pin(follower.catalog.write(&author, intent, app.now(), false)).await?;
    Box::pin(app.sync()).await?;
    app.limiter.hand_over(&bans);
    Ok(bans.len())
}

/// Removes bans that have ended, from memory and from the catalog.
async fn sweep(app: &Shared) {
    let mut was_told = false;
    loop {
        sleep(SWEEP).await;
        app.limiter.sweep_bans();
        let counts = app.limiter.ban_counts();
        if counts.not_made > 0 && !was_told {
            was_told = true;
            tracing::warn!(bans = counts.in_force, "there are too many bans: some are not made");
        }
        let Ok(follower) = app.rulebook.catalog() else { continue };
        loop {
            match Box::pin(follower.catalog.sweep_bans(app.now())).await {
                Ok(0) => break,
                // Others want to write too.
                Ok(_) => sleep(PACE).await,
                Err(error) => {
                    tracing::debug!("bans that have ended are not removed: {error}");
                    break;
                }
            }
        }
    }
}

/// A ban as a catalog keeps it.
pub(crate) fn entry_of(ban: &Ban, tenant: Option<String>) -> BanEntry {
    BanEntry {
        rule_id: ban.rule_id.to_string(),
        identifier: ban.subject.values(),
        tenant,
        expires_at: format_time(ban.until),
    }
}

/// Lifts bans everywhere. Says how many there were. Whoever asked for it may leave meanwhile.
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
    let _turn = app.penalty.turn.lock().await;
    let mut removed = 0;
    if let Ok(follower) = app.rulebook.catalog() {
        let removals = clients.iter().map(|(rule_id, subject)| Edit::Remove {
            kind: Kind::Ban,
            entry: ban_name(rule_id, &subject.values()),
            expect: Expect::Anything,
        });
        let intent = Intent::Edits(removals.collect());
        let written = follower.catalog.write(author, intent, app.now(), false);
        removed = Box::pin(written).await?.changes.len();
        // If that fails, it is told there; here the ban is lifted all the same.
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
