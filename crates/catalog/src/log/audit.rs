//! Who changed what, when and from where: every change of the catalog, and every reset of counters.

use std::cmp::Reverse;

use serde_json::Value as Json;
use tollgate_core::{Micros, Timestamp};

use crate::catalog::Catalog;
use crate::db::database::{DatabaseConnection, Row, Value, values};
use crate::entry::change::without_digest;
use crate::entry::kind::Kind;
use crate::error::CatalogError;
use crate::log::{actors, resets};

/// Which records are wanted.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Those of entries of this tenant only.
    pub tenant: Option<String>,
    /// Those by any of these tokens or parts of the program; empty for all.
    pub actors: Vec<String>,
    /// Those about this kind.
    pub kind: Option<AuditKind>,
    /// All but those about tokens.
    pub without_tokens: bool,
    /// Those about what has this name.
    pub entry: Option<String>,
    /// Those from then on.
    pub since: Option<Timestamp>,
    /// Those before then.
    pub until: Option<Timestamp>,
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditKind {
    /// An entry of the catalog.
    Entry(Kind),
    /// Counters, which are elsewhere.
    Counters,
}

impl AuditKind {
    /// All kinds of entries, and counters.
    pub fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().map(Self::Entry).chain([Self::Counters])
    }

    /// Its name in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entry(kind) => kind.name(),
            Self::Counters => "counters",
        }
    }
}

impl From<Kind> for AuditKind {
    fn from(kind: Kind) -> Self {
        Self::Entry(kind)
    }
}

/// Something that was done, and who did it.
#[derive(Clone, Debug)]
pub struct AuditRecord {
    /// The revision that it made, with others maybe; that of a reset was in force before.
    pub revision: u64,
    /// Its place among the records of that revision.
    pub place: u64,
    /// When.
    pub at: Timestamp,
    /// Who: a token, or a part of the program.
    pub actor: String,
    /// The name of the token, if it has one.
    pub actor_name: Option<String>,
    /// The role of the actor.
    pub role: String,
    /// From where.
    pub address: Option<String>,
    /// What it is about.
    pub kind: AuditKind,
    /// The name of the entry; of a reset, the rule and the client.
    pub name: String,
    /// The tenant that it belongs to.
    pub tenant: Option<String>,
    /// What was there before, as JSON; none if an entry was created.
    pub before: Option<String>,
    /// What was there after, as JSON; none if an entry was removed.
    pub after: Option<String>,
}

impl AuditRecord {
    /// What was there before and after, without digests of secrets.
    #[must_use]
    pub fn redacted(&self) -> (Option<Json>, Option<Json>) {
        let json = |body: &Option<String>| {
            body.as_ref().and_then(|body| serde_json::from_str(body).ok()).map(without_digest)
        };
        (json(&self.before), json(&self.after))
    }

    /// About how many bytes it takes.
    fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.name.len() + text(&self.before) + text(&self.after)
    }
}

/// The place of a record in the log: revision, and place within it.
pub type AuditPlace = (u64, u64);

/// The tables of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogTable {
    Changes,
    Resets,
}

/// How many records are read at a time: each may be large.
const MAX_READ: usize = 50;
/// How many revisions, and how many resets, are forgotten at a time.
const SWEEP: u64 = 500;
/// Removes all before the first one that stays, whatever the clocks said: nodes would miss changes in
/// a gap.
const FORGET: &str = "DELETE FROM tollgate_revisions WHERE number < (\
    SELECT min(number) FROM tollgate_revisions WHERE changed_at >= $1 \
    OR number = (SELECT revision FROM tollgate_catalog)) \
    AND number < (SELECT min(number) + $2 FROM tollgate_revisions)";
const CHANGES: &str = "SELECT revision, place, changed_at, actor, role, address, entry, tenant, was, \
    becomes, kind FROM tollgate_changes JOIN tollgate_revisions ON number = revision";
const RESETS: &str = "SELECT revision, place, changed_at, actor, role, address, entry, tenant, was, \
    becomes FROM tollgate_resets";

impl Catalog {
    /// At most `limit` records, the newest first, before the one at that place.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<AuditPlace>,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, CatalogError> {
        let (records, _) = self.audit_page(filter, before, limit, usize::MAX).await?;
        Ok(records)
    }

    /// At most `limit` records of about `max_bytes` together, but at least one, the newest first, before the
    /// one at that place. Also returns whether there are more.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn audit_page(
        &self,
        filter: &AuditFilter,
        before: Option<AuditPlace>,
        limit: usize,
        max_bytes: usize,
    ) -> Result<(Vec<AuditRecord>, bool), CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let reading = page(lease.connection(), filter, before, limit, max_bytes);
        let page = self.in_time(reading).await?;
        lease.give_back();
        Ok(page)
    }

    /// Removes some records that are older than that, but never the last change; returns how many
    /// revisions and resets it removed.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn forget_audit(
        &self,
        now: Timestamp,
        kept_for: Micros,
    ) -> Result<u64, CatalogError> {
        let end = now.minus(kept_for);
        let mut lease = self.connections.to_write().await?;
        let connection = lease.connection();
        let revisions =
            self.in_time(connection.run(FORGET, values![end.as_micros(), SWEEP])).await?;
        let resets = self.in_time(resets::forget(connection, end, SWEEP)).await?;
        lease.give_back();
        Ok(revisions + resets)
    }
}

async fn page(
    connection: &mut DatabaseConnection,
    filter: &AuditFilter,
    mut before: Option<AuditPlace>,
    limit: usize,
    max_bytes: usize,
) -> Result<(Vec<AuditRecord>, bool), sqlx::Error> {
    // One transaction, so that all queries see one version.
    connection.begin_reading().await?;
    let (mut page, mut bytes, mut has_more): (Vec<AuditRecord>, _, _) = (Vec::new(), 0, false);
    while !has_more {
        // One more than `limit` shows whether there are more.
        let count = (limit.saturating_add(1) - page.len()).min(MAX_READ);
        let records = records(connection, filter, before, count).await?;
        let is_last = records.len() < count;
        for record in records {
            bytes += record.bytes();
            has_more = page.len() == limit || (bytes > max_bytes && !page.is_empty());
            if has_more {
                break;
            }
            before = Some((record.revision, record.place));
            page.push(record);
        }
        if is_last {
            break;
        }
    }
    let names = actors::names(connection, page.iter().map(|record| &*record.actor)).await?;
    for record in &mut page {
        record.actor_name = names.get(&record.actor).cloned();
    }
    connection.commit().await?;
    Ok((page, has_more))
}

async fn records(
    connection: &mut DatabaseConnection,
    filter: &AuditFilter,
    before: Option<AuditPlace>,
    limit: usize,
) -> Result<Vec<AuditRecord>, sqlx::Error> {
    let mut records = Vec::new();
    for table in [LogTable::Changes, LogTable::Resets] {
        if filter
            .kind
            .is_some_and(|kind| (kind == AuditKind::Counters) != (table == LogTable::Resets))
        {
            continue;
        }
        let (sql, values) = filter.statement(table, before, limit);
        for row in connection.rows(&sql, values).await? {
            records.extend(record_of(&row, table)?);
        }
    }
    records.sort_by_key(|record| Reverse((record.revision, record.place)));
    records.truncate(limit);
    Ok(records)
}

impl AuditFilter {
    /// What finds records, the newest first.
    pub(crate) fn statement(
        &self,
        table: LogTable,
        before: Option<AuditPlace>,
        limit: usize,
    ) -> (String, Vec<Value>) {
        let (mut conditions, mut values) = (Vec::new(), Vec::new());
        let Self { tenant, actors, kind, without_tokens, entry, since, until } = self;
        if !actors.is_empty() {
            values.extend(actors.iter().map(|actor| Value::from(actor.as_str())));
            let places: Vec<String> = (1..=values.len()).map(|at| format!("${at}")).collect();
            conditions.push(format!("actor IN ({})", places.join(", ")));
        }
        let mut add = |condition: &str, value: Value| {
            values.push(value);
            conditions.push(condition.replace("$?", &format!("${}", values.len())));
        };
        if let Some(tenant) = tenant.as_deref() {
            add("tenant = $?", tenant.into());
        }
        if let Some(AuditKind::Entry(kind)) = kind {
            add("kind = $?", kind.name().into());
        }
        if *without_tokens && table == LogTable::Changes {
            add("kind <> $?", Kind::Token.name().into());
        }
        if let Some(entry) = entry.as_deref() {
            add("entry = $?", entry.into());
        }
        if let Some(since) = since {
            add("changed_at >= $?", since.as_micros().into());
        }
        if let Some(until) = until {
            add("changed_at < $?", until.as_micros().into());
        }
        if let Some((revision, place)) = before {
            add("revision <= $?", revision.into());
            add("(revision < $?", revision.into());
            let joined = conditions.pop().unwrap_or_default();
            values.push(place.into());
            conditions.push(format!("{joined} OR place < ${})", values.len()));
        }
        let conditions =
            if conditions.is_empty() { "1 = 1".to_owned() } else { conditions.join(" AND ") };
        let from = match table {
            LogTable::Changes => CHANGES,
            LogTable::Resets => RESETS,
        };
        let sql = format!(
            "{from} WHERE {conditions} ORDER BY revision DESC, place DESC LIMIT ${}",
            values.len() + 1
        );
        values.extend(values![limit as u64]);
        (sql, values)
    }
}

/// None if it is of a kind that this version does not know.
fn record_of(row: &Row, table: LogTable) -> Result<Option<AuditRecord>, sqlx::Error> {
    let kind = match table {
        LogTable::Changes => {
            let Some(kind) = Kind::from_name(&row.text(10)?) else { return Ok(None) };
            AuditKind::Entry(kind)
        }
        LogTable::Resets => AuditKind::Counters,
    };
    Ok(Some(AuditRecord {
        revision: row.count(0)?,
        place: row.count(1)?,
        at: Timestamp::from_micros(row.count(2)?),
        actor: row.text(3)?,
        actor_name: None,
        role: row.text(4)?,
        address: row.optional_text(5)?,
        kind,
        name: row.text(6)?,
        tenant: row.optional_text(7)?,
        before: row.optional_text(8)?,
        after: row.optional_text(9)?,
    }))
}
