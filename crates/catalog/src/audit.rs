//! Who changed what, when and from where.

use tollgate_core::{Micros, Timestamp};

use crate::catalog::Catalog;
use crate::change::Change;
use crate::database::{Row, Value, values};
use crate::error::CatalogError;
use crate::kind::Kind;

/// Which changes are wanted.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Those of entries of this tenant only.
    pub tenant: Option<String>,
    /// Those by this token, or part of the program.
    pub actor: Option<String>,
    /// Those of entries of this kind.
    pub kind: Option<Kind>,
    /// Those of the entry of this name.
    pub entry: Option<String>,
    /// Those from then on.
    pub since: Option<Timestamp>,
    /// Those before then.
    pub until: Option<Timestamp>,
}

/// A change, and who made it.
#[derive(Clone, Debug)]
pub struct AuditRecord {
    /// The revision that it made, with others maybe.
    pub revision: u64,
    /// Its place among the changes of that revision.
    pub place: u64,
    /// When.
    pub at: Timestamp,
    /// Who: a token, or a part of the program.
    pub actor: String,
    /// The role of whoever it was.
    pub role: String,
    /// From where.
    pub address: Option<String>,
    /// What.
    pub change: Change,
}

/// The place of a record in the log: revision, and place within it.
pub type AuditPlace = (u64, u64);

/// How many revisions are forgotten at a time.
const SWEEP: u64 = 500;
/// All before the first one that stays, whatever the clocks said: a gap would be a change that nodes
/// never hear of.
const FORGET: &str = "DELETE FROM tollgate_revisions WHERE number < (\
    SELECT min(number) FROM tollgate_revisions WHERE changed_at >= $1 \
    OR number = (SELECT revision FROM tollgate_catalog)) \
    AND number < (SELECT min(number) + $2 FROM tollgate_revisions)";

impl Catalog {
    /// At most `limit` changes, the newest first, before the one at that place.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<AuditPlace>,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, CatalogError> {
        let (sql, values) = filter.statement(before, limit);
        let mut lease = self.connections.to_read().await?;
        let rows = self.in_time(lease.connection().rows(&sql, values)).await?;
        lease.give_back();
        let records = rows.iter().filter_map(|row| record_of(row).transpose());
        records.collect::<Result<_, _>>().map_err(|error| self.failed(&error))
    }

    /// Forgets some changes that are older than that, but never the last one; says how many.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn forget_audit(
        &self,
        now: Timestamp,
        kept_for: Micros,
    ) -> Result<u64, CatalogError> {
        let end = now.minus(kept_for).as_micros();
        let mut lease = self.connections.to_write().await?;
        let forgotten = self.in_time(lease.connection().run(FORGET, values![end, SWEEP])).await?;
        lease.give_back();
        Ok(forgotten)
    }
}

impl AuditFilter {
    /// What finds records, the newest first.
    pub(crate) fn statement(
        &self,
        before: Option<AuditPlace>,
        limit: usize,
    ) -> (String, Vec<Value>) {
        let (mut conditions, mut values) = (Vec::new(), Vec::new());
        let mut add = |condition: &str, value: Value| {
            values.push(value);
            conditions.push(condition.replace("$?", &format!("${}", values.len())));
        };
        let Self { tenant, actor, kind, entry, since, until } = self;
        if let Some(tenant) = tenant.as_deref() {
            add("c.tenant = $?", tenant.into());
        }
        if let Some(actor) = actor.as_deref() {
            add("r.actor = $?", actor.into());
        }
        if let Some(kind) = kind {
            add("c.kind = $?", kind.name().into());
        }
        if let Some(entry) = entry.as_deref() {
            add("c.entry = $?", entry.into());
        }
        if let Some(since) = since {
            add("r.changed_at >= $?", since.as_micros().into());
        }
        if let Some(until) = until {
            add("r.changed_at < $?", until.as_micros().into());
        }
        if let Some((revision, place)) = before {
            add("c.revision <= $?", revision.into());
            add("(c.revision < $?", revision.into());
            let joined = conditions.pop().unwrap_or_default();
            values.push(place.into());
            conditions.push(format!("{joined} OR c.place < ${})", values.len()));
        }
        let conditions =
            if conditions.is_empty() { "1 = 1".to_owned() } else { conditions.join(" AND ") };
        let sql = format!(
            "SELECT c.revision, c.place, r.changed_at, r.actor, r.role, r.address, \
             c.kind, c.entry, c.tenant, c.was, c.becomes \
             FROM tollgate_changes c JOIN tollgate_revisions r ON r.number = c.revision \
             WHERE {conditions} ORDER BY c.revision DESC, c.place DESC LIMIT ${}",
            values.len() + 1
        );
        values.extend(values![limit as u64]);
        (sql, values)
    }
}

/// None if it is of a kind that this version does not know.
fn record_of(row: &Row) -> Result<Option<AuditRecord>, sqlx::Error> {
    let Some(kind) = Kind::from_name(&row.text(6)?) else { return Ok(None) };
    Ok(Some(AuditRecord {
        revision: row.count(0)?,
        place: row.count(1)?,
        at: Timestamp::from_micros(row.count(2)?),
        actor: row.text(3)?,
        role: row.text(4)?,
        address: row.optional_text(5)?,
        change: Change {
            kind,
            entry: row.text(7)?,
            tenant: row.optional_text(8)?,
            was: row.optional_text(9)?,
            becomes: row.optional_text(10)?,
        },
    }))
}
