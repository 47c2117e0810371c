//! Bans in the catalog: kept one by one, lifted with their rule or all at once, and removed in small steps
//! after they have ended. Each is an ordinary change, so other nodes follow.

use std::sync::Arc;

use tollgate_core::Timestamp;
use tollgate_rules::Problem;
use tollgate_rules::document::RuleDocument;

use crate::catalog::Catalog;
use crate::db::database::{DatabaseConnection, values};
use crate::db::tables;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::entry::validate_entry;
use crate::entry::{BanEntry, Entry, ban_name};
use crate::error::CatalogError;
use crate::write::ownership;
use crate::write::{Author, Edit, Expect, Intent};

/// How many bans are removed at a time.
const SWEEP: u64 = 200;
/// Of how many rules that are gone bans are lifted at a time.
const MAX_ORPHANED_RULES: u64 = 100;

const ENDED: &str = "SELECT entry, version FROM tollgate_bans WHERE expires_at <= $1 \
                     ORDER BY expires_at LIMIT $2";
const ORPHANED: &str = "SELECT DISTINCT rule_id FROM tollgate_bans WHERE NOT EXISTS \
    (SELECT 1 FROM tollgate_rules WHERE tollgate_rules.entry = tollgate_bans.rule_id) \
    ORDER BY rule_id LIMIT $1";
const COUNT: &str = "SELECT count(*) FROM tollgate_bans WHERE rule_id = $1";

/// Who writes bans, in the log of changes.
pub(crate) const PENALTY: &str = "penalty";

fn penalty() -> Author {
    Author::program(PENALTY)
}

impl Catalog {
    /// Keeps bans. One that cannot be kept does not stop the others: returns those, by their place in
    /// `bans`, each with the reason. Bans by rules that do not ban any more are dropped.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn keep_bans(
        &self,
        bans: &[BanEntry],
        now: Timestamp,
    ) -> Result<Vec<(usize, CatalogError)>, CatalogError> {
        let (mut sound, mut skipped) = (Vec::new(), Vec::new());
        for (at, ban) in bans.iter().enumerate() {
            match flaw(ban) {
                None => sound.push((at, ban)),
                Some(problem) => skipped.push((at, CatalogError::Invalid(vec![problem]))),
            }
        }
        let all = sound.iter().map(|(_, ban)| (*ban).clone()).collect();
        match Box::pin(self.write(&penalty(), Intent::Bans(all), now, false)).await {
            Ok(_) => return Ok(skipped),
            // The database refuses one of them: the others are written without it.
            Err(CatalogError::Invalid(_)) => {}
            Err(error) => return Err(error),
        }
        for (at, ban) in sound {
            let one = Intent::Bans(vec![ban.clone()]);
            match Box::pin(self.write(&penalty(), one, now, false)).await {
                Ok(_) => {}
                Err(error @ CatalogError::Invalid(_)) => skipped.push((at, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(skipped)
    }

    /// Removes some bans that have ended; says how many.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn sweep_bans(&self, now: Timestamp) -> Result<usize, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let rows = lease.connection().rows(ENDED, values![now.as_micros(), SWEEP]);
        let rows = self.in_time(rows).await?;
        lease.give_back();
        let mut edits = Vec::with_capacity(rows.len());
        for row in &rows {
            let failed = |error: sqlx::Error| self.failed(&error);
            let (name, version) = (row.text(0).map_err(failed)?, row.count(1).map_err(failed)?);
            edits.push(Edit::Remove { kind: Kind::Ban, name, expect: Expect::Version(version) });
        }
        if edits.is_empty() {
            return Ok(0);
        }
        match Box::pin(self.write(&penalty(), Intent::Edits(edits), now, false)).await {
            Ok(written) => Ok(written.changes.len()),
            // Another node has removed or renewed one of them meanwhile: the next sweep takes the rest.
            Err(CatalogError::Missing { .. } | CatalogError::Changed { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Lifts bans by rules that are gone, which earlier versions left behind. Returns of how many rules.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn lift_orphaned_bans(&self, now: Timestamp) -> Result<usize, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let rows = lease.connection().rows(ORPHANED, values![MAX_ORPHANED_RULES]);
        let rows = self.in_time(rows).await?;
        lease.give_back();
        let rules: Result<Vec<String>, sqlx::Error> = rows.iter().map(|row| row.text(0)).collect();
        let rules = rules.map_err(|error| self.failed(&error))?;
        if rules.is_empty() {
            return Ok(0);
        }
        let edits = rules.into_iter().map(|rule_id| Edit::LiftBans { rule_id }).collect();
        let written = Box::pin(self.write(&penalty(), Intent::Edits(edits), now, false)).await?;
        Ok(written.changes.len())
    }

    /// Of these bans, those whose rules still ban.
    pub(crate) async fn still_wanted(
        &self,
        connection: &mut DatabaseConnection,
        mut bans: Vec<BanEntry>,
    ) -> Result<Vec<BanEntry>, CatalogError> {
        let mut rules: Vec<String> = bans.iter().map(|ban| ban.rule_id.clone()).collect();
        rules.sort_unstable();
        rules.dedup();
        for rule_id in rules {
            let found = tables::find(connection, Kind::Rule, &rule_id).await;
            let found = found.map_err(|error| self.failed(&error))?;
            let rule = found.map(|stored| stored.parse()).transpose()?;
            if !matches!(rule, Some(Entry::Rule(rule)) if rule.penalty.is_some()) {
                bans.retain(|ban| ban.rule_id != rule_id);
            }
        }
        Ok(bans)
    }

    /// Refuses to lift bans by a rule that the author did not write, as for single bans.
    pub(crate) async fn check_ban_author(
        &self,
        connection: &mut DatabaseConnection,
        author: &Author,
        rule_id: &str,
    ) -> Result<(), CatalogError> {
        if author.tenant.is_none() {
            return Ok(());
        }
        let rule = tables::find(connection, Kind::Rule, rule_id).await;
        let rule = rule.map_err(|error| self.failed(&error))?;
        let missing = || CatalogError::Missing { kind: Kind::Rule, name: rule_id.to_owned() };
        let rule = rule.filter(|rule| ownership::is_visible(author, rule)).ok_or_else(missing)?;
        ownership::check_author(connection, self.url(), author, &rule, &rule.parse()?).await
    }

    /// The change that lifts all bans by a rule, and how many there are; none if there are none.
    pub(crate) async fn lifting(
        &self,
        connection: &mut DatabaseConnection,
        author: &Author,
        rule_id: &str,
    ) -> Result<Option<(Change, u64)>, CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let row = connection.row(COUNT, values![rule_id]).await.map_err(failed)?;
        let count = row.map_or(Ok(0), |row| row.count(0)).map_err(failed)?;
        let lifting = || Change {
            kind: Kind::Ban,
            name: ban_name(rule_id, &[]),
            tenant: None,
            author_tenant: author.tenant.clone(),
            before: Some(Arc::new(Entry::Ban(BanEntry::all_by(rule_id, count)))),
            after: None,
        };
        Ok((count > 0).then(|| (lifting(), count)))
    }

    /// Adds to changes of rules that the bans by them are lifted: by those that go, that lose their penalty,
    /// or that count by other identifiers, whose values would mean other clients.
    pub(crate) async fn lift_with_rules(
        &self,
        connection: &mut DatabaseConnection,
        author: &Author,
        changes: &mut Vec<Change>,
    ) -> Result<(), CatalogError> {
        let mut ending = Vec::new();
        for change in changes.iter().filter(|it| it.kind == Kind::Rule && it.before.is_some()) {
            let (before, after) =
                (rule_in(change.before.as_deref()), rule_in(change.after.as_deref()));
            let keeps = before.zip(after).is_some_and(|(before, after)| {
                (before.penalty.is_none() || after.penalty.is_some())
                    && before.identifier_type == after.identifier_type
            });
            if !keeps {
                ending.push(change.name.clone());
            }
        }
        for rule_id in ending {
            let name = ban_name(&rule_id, &[]);
            if changes.iter().any(|it| it.kind == Kind::Ban && it.name == name) {
                continue;
            }
            // Changes of single bans by the same transaction have no effect.
            let prefix = format!("{},", name.trim_end_matches(']'));
            let is_one = |it: &Change| it.kind == Kind::Ban && it.name.starts_with(&prefix);
            changes.retain(|it| !is_one(it) || it.after.is_none());
            let removed = changes.iter().filter(|it| is_one(it)).count() as u64;
            if let Some((lifting, count)) = self.lifting(connection, author, &rule_id).await?
                && count > removed
            {
                changes.retain(|it| !is_one(it));
                changes.push(lifting);
            }
        }
        Ok(())
    }
}

fn rule_in(entry: Option<&Entry>) -> Option<&RuleDocument> {
    match entry {
        Some(Entry::Rule(rule)) => Some(rule),
        _ => None,
    }
}

/// Why a ban cannot be kept, if it cannot.
fn flaw(ban: &BanEntry) -> Option<Problem> {
    let name = ban_name(&ban.rule_id, &ban.identifier);
    validate_entry::flaw(&Entry::Ban(ban.clone()), &name, ban.tenant.as_deref())
}
