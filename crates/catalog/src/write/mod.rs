//! Every write to a catalog: one transaction, one revision, one line in the audit log for each entry.

mod apply;
pub(crate) mod bans;
pub(crate) mod bounds;
pub(crate) mod ownership;
pub(crate) mod resolve;
mod rollback;
mod tier_use;
pub(crate) mod validate_policy;

use std::sync::Arc;

use aws_lc_rs::rand;
use futures_core::future::BoxFuture;
use serde_json::Value as Json;
use tokio::time::timeout;
use tollgate_core::Timestamp;
use tollgate_rules::{PolicyDocument, Revision};

use crate::catalog::{Catalog, Version, set_version};
use crate::db::connections::CALL_TIMEOUT;
use crate::db::database::{DatabaseConnection, values};
use crate::db::disk_space::has_room_for_tenants;
use crate::db::tables::{self, Stamp};
use crate::entry::access::Token;
use crate::entry::change::{Change, Update};
use crate::entry::kind::Kind;
use crate::entry::{BanEntry, Entry};
use crate::error::CatalogError;
use crate::read::load::{Lock, version_of};
use crate::write::bans::PENALTY;

/// The role of parts of the program.
pub(crate) const PROGRAM: &str = "program";

/// The author of a change, and where the call came from.
#[derive(Clone, Debug)]
pub struct Author {
    /// The token, or the part of the program.
    pub actor: String,
    /// Its role.
    pub role: String,
    /// The only tenant whose entries it may change.
    pub tenant: Option<String>,
    /// The address it called from.
    pub address: Option<String>,
}

impl Author {
    /// A part of the program itself.
    #[must_use]
    pub fn program(part: &str) -> Self {
        Self { actor: part.to_owned(), role: PROGRAM.to_owned(), tenant: None, address: None }
    }

    /// Whether its changes must leave room for those of operators: what tenants write, and bans that
    /// clients cause.
    fn leaves_room(&self) -> bool {
        self.tenant.is_some() || (self.role == PROGRAM && self.actor == PENALTY)
    }
}

/// A write.
#[derive(Clone, Debug)]
pub enum Intent {
    /// These entries.
    Edits(Vec<Edit>),
    /// Everything in a document; other entries of the kinds in `prune` are removed.
    Apply {
        /// The document.
        document: Box<PolicyDocument>,
        /// The kinds of which entries that are not in the document are removed.
        prune: Vec<Kind>,
        /// The revision that the catalog has to be at; any, if there is none.
        revision: Option<u64>,
    },
    /// The policy as it was at a revision. API keys, tokens and bans stay as they are.
    Rollback {
        /// The revision.
        to: u64,
        /// Only entries of this kind; of all kinds, if there is none.
        only: Option<Kind>,
        /// The revision that the catalog has to be at; any, if there is none.
        revision: Option<u64>,
    },
    /// The first entries, unless the catalog has begun already.
    Begin(Vec<Entry>),
    /// The token of an administrator, unless there is one that has not expired.
    FirstAdmin {
        /// The token.
        token: Token,
        /// The current time.
        now: Timestamp,
    },
    /// These bans, as far as their rules still ban.
    Bans(Vec<BanEntry>),
    /// Removes a token, unless it is the last one of an administrator that has not expired.
    RevokeToken {
        /// Its name.
        token_id: String,
        /// The condition.
        expect: Expect,
        /// The current time.
        now: Timestamp,
    },
}

impl Intent {
    /// What the history says beside the changes.
    fn note(&self) -> Option<String> {
        match self {
            Self::Rollback { to, only: Some(kind), .. } => {
                Some(format!("rollback of {}s to revision {to}", kind.name()))
            }
            Self::Rollback { to, .. } => Some(format!("rollback to revision {to}")),
            _ => None,
        }
    }
}

/// The write of one entry.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Creates or replaces it.
    Put {
        /// The entry.
        entry: Entry,
        /// The condition.
        expect: Expect,
    },
    /// Changes some of its fields by a JSON merge patch.
    Patch {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// The fields.
        fields: Json,
        /// The condition.
        expect: Expect,
    },
    /// Removes it.
    Remove {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// The condition.
        expect: Expect,
    },
    /// Lifts all bans by a rule.
    LiftBans {
        /// The rule.
        rule_id: String,
    },
}

/// The condition for a change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// None.
    Anything,
    /// It must not be there.
    Absent,
    /// It must be there.
    Present,
    /// It must be at this version.
    Version(u64),
}

/// The effect of a transaction, before it is committed.
#[derive(Debug)]
pub(crate) struct Prepared {
    before: Version,
    update: Update,
    /// Whether it is the first one of its catalog.
    pub(crate) begins: bool,
}

const CREATE: &str = "INSERT INTO tollgate_catalog (only_row, epoch, revision, stamp) \
                      VALUES (1, $1, 0, $2) ON CONFLICT (only_row) DO NOTHING";
const REVISION: &str = "INSERT INTO tollgate_revisions \
    (number, stamp, changed_at, actor, role, address, note) VALUES ($1, $2, $3, $4, $5, $6, $7)";
const CHANGE: &str = "INSERT INTO tollgate_changes \
    (revision, place, kind, entry, tenant, was, becomes, author_tenant) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
/// The bytes of a file that its next pages take before it grows.
const UNUSED: &str =
    "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size";
const NO_SPACE: &str = "the disk of the catalog is almost full, and what is left is kept for \
    operators: try again when the operator of this server has made room";
const TELL: &str = "SELECT pg_notify('tollgate_catalog', $1)";

impl Catalog {
    /// Makes all changes or none; with `is_dry_run`, returns what would change.
    ///
    /// # Errors
    /// Why nothing was changed; after [`CatalogError::Unknown`], the outcome is unknown.
    pub async fn write(
        &self,
        author: &Author,
        intent: Intent,
        now: Timestamp,
        is_dry_run: bool,
    ) -> Result<Update, CatalogError> {
        let Prepared { before, mut update, .. } =
            self.transact(author, intent, now, is_dry_run).await?;
        if is_dry_run {
            update.version = before;
        }
        Ok(update)
    }

    /// Writes in one transaction, which is rolled back after a dry run.
    pub(crate) fn transact<'a>(
        &'a self,
        author: &'a Author,
        intent: Intent,
        now: Timestamp,
        is_dry_run: bool,
    ) -> BoxFuture<'a, Result<Prepared, CatalogError>> {
        Box::pin(async move {
            let mut lease = self.connections.to_write().await?;
            if author.leaves_room() && !is_dry_run && !self.has_room(lease.connection()).await? {
                lease.give_back();
                return Err(CatalogError::NoSpace(NO_SPACE.to_owned()));
            }
            let preparing = self.prepare(lease.connection(), author, intent, now);
            let prepared = match timeout(CALL_TIMEOUT, preparing).await {
                Ok(Ok(prepared)) => prepared,
                Ok(Err(error)) => {
                    let undone = timeout(CALL_TIMEOUT, lease.connection().roll_back()).await;
                    if matches!(undone, Ok(Ok(()))) {
                        lease.give_back();
                    }
                    return Err(error);
                }
                Err(_) => return Err(CatalogError::away(self.url(), "it does not answer")),
            };
            let connection = lease.connection();
            if is_dry_run || (prepared.update.changes.is_empty() && !prepared.begins) {
                self.in_time(connection.roll_back()).await?;
                lease.give_back();
                return Ok(prepared);
            }
            match timeout(CALL_TIMEOUT, connection.commit()).await {
                Ok(Ok(())) => {
                    lease.give_back();
                    *self.own_write.lock() = Some((prepared.before, prepared.update.clone()));
                    self.wake();
                    Ok(prepared)
                }
                // A database that refuses the commit has rolled back.
                Ok(Err(error @ sqlx::Error::Database(_))) => Err(self.failed(&error)),
                Ok(Err(_)) | Err(_) => Err(CatalogError::Unknown(format!(
                    "the catalog {} went away before it said whether the change was kept: look again",
                    self.url()
                ))),
            }
        })
    }

    /// Whether a file leaves more room than operators need. PostgreSQL manages its own disk.
    async fn has_room(&self, connection: &mut DatabaseConnection) -> Result<bool, CatalogError> {
        let Some(file) = self.url().file() else { return Ok(true) };
        let row = self.in_time(connection.row(UNUSED, vec![])).await?;
        let unused = row.map_or(Ok(0), |row| row.count(0)).map_err(|error| self.failed(&error))?;
        Ok(has_room_for_tenants(file, unused))
    }

    async fn prepare(
        &self,
        connection: &mut DatabaseConnection,
        author: &Author,
        intent: Intent,
        now: Timestamp,
    ) -> Result<Prepared, CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let stamp = random_stamp()?;
        connection.begin().await.map_err(failed)?;
        let mut begins = false;
        if matches!(intent, Intent::Begin(_)) {
            let created = connection.run(CREATE, values![now.as_micros(), stamp]).await;
            begins = created.map_err(failed)? > 0;
            if !begins {
                let before = version_of(connection, Lock::None).await.map_err(failed)?;
                let update = Update::new(before, Vec::new());
                return Ok(Prepared { before, update, begins });
            }
        }
        // The lock on this row makes this the only transaction that writes.
        let before = version_of(connection, Lock::Writers).await.map_err(failed)?;
        if before == Version::default() {
            return Err(CatalogError::Unusable(format!("the catalog {} is empty", self.url())));
        }
        let note = intent.note();
        if let Intent::Apply { revision: Some(expected), .. }
        | Intent::Rollback { revision: Some(expected), .. } = intent
            && expected != before.revision.number
        {
            return Err(CatalogError::Moved { revision: before.revision.number });
        }
        let mut changes = self.resolve(connection, author, intent).await?;
        bounds::check_rules(self.policy_bounds.bounds, &changes)?;
        self.lift_with_rules(connection, author, &mut changes).await?;
        if changes.is_empty() {
            return Ok(Prepared { before, update: Update::new(before, changes), begins });
        }
        let Revision { epoch, number } = before.revision;
        let number = number + 1;
        let version = Version { revision: Revision { epoch, number }, stamp };
        set_version(connection, version).await.map_err(failed)?;
        ownership::settle(connection, self.url(), author, &mut changes).await?;
        tables::order(&mut changes);
        let written = Stamp {
            version: number,
            at: Some(now.as_micros()),
            by: Some(&author.actor),
            created: None,
            tenant: author.tenant.as_deref(),
        };
        for change in &changes {
            self.apply(connection, change, written).await?;
        }
        tables::hand_over(connection, &changes).await.map_err(failed)?;
        let bounds = self.policy_bounds.bounds;
        bounds::check_tenant(connection, self.url(), bounds, author, &changes).await?;
        let compiled =
            validate_policy::check(connection, self.url(), &changes, self.policy_bounds).await?;
        if let Some(policy) = &compiled
            && self.policy_bounds.for_redis
        {
            bounds::check_records(connection, self.url(), author, &changes, policy).await?;
        }
        let (actor, role) = (author.actor.as_str(), author.role.as_str());
        let address = author.address.as_deref();
        let revision = values![number, stamp, now.as_micros(), actor, role, address, note];
        connection.run(REVISION, revision).await.map_err(failed)?;
        log(connection, number, &changes).await.map_err(failed)?;
        if connection.is_postgres() {
            connection.rows(TELL, values![format!("{epoch}:{number}")]).await.map_err(failed)?;
        }
        Ok(Prepared { before, update: Update { version, changes, compiled }, begins })
    }
}

/// Writes changes to the audit log.
async fn log(
    connection: &mut DatabaseConnection,
    revision: u64,
    changes: &[Change],
) -> Result<(), sqlx::Error> {
    for (place, change) in (0_u64..).zip(changes) {
        let Change { kind, name, tenant, author_tenant, before, after } = change;
        let body = |entry: &Option<Arc<Entry>>| entry.as_ref().map(|entry| entry.body());
        let (tenant, author_tenant) = (tenant.as_deref(), author_tenant.as_deref());
        let (name, before, after) = (name.as_str(), body(before), body(after));
        let values =
            values![revision, place, kind.name(), name, tenant, before, after, author_tenant];
        connection.run(CHANGE, values).await?;
    }
    Ok(())
}

/// Distinguishes a revision from the one with the same number in another history.
pub(crate) fn random_stamp() -> Result<u64, CatalogError> {
    let mut bytes = [0; 8];
    let drawn = rand::fill(&mut bytes);
    drawn.map_err(|_| CatalogError::Away("the system gives no random numbers".to_owned()))?;
    // Positive as a signed number too: databases have no unsigned ones.
    Ok(u64::from_le_bytes(bytes) >> 1)
}
