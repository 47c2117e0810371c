//! Bounds on what is written, so that the rules of one tenant cannot slow down the others.

use std::sync::Arc;

use tollgate_rules::document::RuleDocument;
use tollgate_rules::{Policy, Problem, beyond_tenant_in_redis};

use crate::db::database::{DatabaseConnection, values};
use crate::db::url::CatalogUrl;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::entry::{Entry, without_list};
use crate::error::CatalogError;
use crate::write::Author;

/// How much may be written. What is already there stays in force, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBounds {
    /// The largest rule in bytes, as JSON.
    pub rule_bytes: usize,
    /// The most globs of a rule.
    pub globs_per_rule: usize,
    /// The most rules of a tenant, where its administrators write them.
    pub rules_per_tenant: usize,
    /// The largest size of all rules of a tenant together, where its administrators write them.
    pub rule_bytes_per_tenant: usize,
    /// The most overrides and list entries of a tenant, where its administrators write them.
    pub entries_per_tenant: usize,
}

impl Default for WriteBounds {
    fn default() -> Self {
        Self {
            rule_bytes: 64 << 10,
            globs_per_rule: 1_000,
            rules_per_tenant: 50,
            rule_bytes_per_tenant: 4 << 20,
            entries_per_tenant: 10_000,
        }
    }
}

/// Checks each rule that is created or changed, without the database.
pub(crate) fn check_rules(bounds: WriteBounds, changes: &[Change]) -> Result<(), CatalogError> {
    let mut problems = Vec::new();
    let changed = changes.iter().filter(|it| it.kind == Kind::Rule && it.before != it.after);
    for change in changed {
        let Some(Entry::Rule(rule)) = change.after.as_deref() else { continue };
        let mut refuse = |message: String, advice: String| {
            let problem = Problem::new("", message).with_advice(advice);
            problems.push(Problem { rule: Some(change.name.clone()), ..problem });
        };
        let (bytes, max) = (length(change.after.as_ref()), bounds.rule_bytes);
        if bytes > max {
            refuse(
                format!("the rule takes {bytes} bytes, of at most {max} (limits.rule_bytes)"),
                "split it into several rules".to_owned(),
            );
            continue;
        }
        let (globs, max) = (globs_of(rule), bounds.globs_per_rule);
        if globs > max {
            refuse(
                format!("the rule has {globs} globs, of at most {max} (limits.globs_per_rule)"),
                "match a common prefix, or split the rule".to_owned(),
            );
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(CatalogError::Invalid(problems)) }
}

/// The bytes that an entry takes, as JSON.
fn length(entry: Option<&Arc<Entry>>) -> usize {
    entry.map_or(0, |entry| entry.body().len())
}

fn globs_of(rule: &RuleDocument) -> usize {
    rule.applies_to.attributes.values().map(Vec::len).sum()
}

/// Checks how much a tenant has after changes of its administrators. A change that makes it less is
/// never refused.
pub(crate) async fn check_tenant(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    bounds: WriteBounds,
    author: &Author,
    changes: &[Change],
) -> Result<(), CatalogError> {
    let Some(tenant) = author.tenant.as_deref() else { return Ok(()) };
    let failed = |error: sqlx::Error| CatalogError::from_database(url, &error);
    let of = |kinds: &'static [Kind]| changes.iter().filter(|it| kinds.contains(&it.kind));
    let added = |kinds| {
        let change = |it: &Change| i64::from(it.after.is_some()) - i64::from(it.before.is_some());
        of(kinds).map(change).sum::<i64>()
    };
    let growth = |it: &Change| length(it.after.as_ref()) as i64 - length(it.before.as_ref()) as i64;
    let grown: i64 = of(RULES).map(growth).sum();
    if added(RULES) > 0 || grown > 0 {
        let sql = "SELECT count(*), CAST(COALESCE(sum(length(body)), 0) AS BIGINT) \
                   FROM tollgate_rules WHERE tenant = $1";
        let row = connection.row(sql, values![tenant]).await.map_err(failed)?;
        let Some(row) = row else { return Ok(()) };
        let (rules, bytes) = (row.count(0).map_err(failed)?, row.count(1).map_err(failed)?);
        if added(RULES) > 0 && rules > bounds.rules_per_tenant as u64 {
            let max = bounds.rules_per_tenant;
            return Err(too_much(format!(
                "the tenant {tenant} would have {rules} rules, of at most {max} \
                 (limits.rules_per_tenant)"
            )));
        }
        if grown > 0 && bytes > bounds.rule_bytes_per_tenant as u64 {
            let max = bounds.rule_bytes_per_tenant;
            return Err(too_much(format!(
                "the rules of the tenant {tenant} would take {bytes} bytes, of at most {max} \
                 (limits.rule_bytes_per_tenant)"
            )));
        }
    }
    if added(ENTRIES) > 0 {
        let mut entries = 0;
        for kind in ENTRIES {
            let sql = format!("SELECT count(*) FROM {} WHERE tenant = $1", kind.table());
            let row = connection.row(&sql, values![tenant]).await.map_err(failed)?;
            entries += row.map_or(Ok(0), |row| row.count(0)).map_err(failed)?;
        }
        let max = bounds.entries_per_tenant;
        if entries > max as u64 {
            return Err(too_much(format!(
                "the tenant {tenant} would have {entries} overrides and list entries, of at most \
                 {max} (limits.entries_per_tenant)"
            )));
        }
    }
    Ok(())
}

/// Checks that rules which administrators of a tenant write leave room for those of operators in the records of Redis. A
/// change that takes no more room is never refused.
pub(crate) async fn check_records(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    author: &Author,
    changes: &[Change],
    policy: &Policy,
) -> Result<(), CatalogError> {
    let Some(tenant) = author.tenant.as_deref() else { return Ok(()) };
    let grown: Vec<&RuleDocument> = changes.iter().filter_map(grown).collect();
    if grown.is_empty() {
        return Ok(());
    }
    let failed = |error: sqlx::Error| CatalogError::from_database(url, &error);
    let sql = "SELECT body FROM tollgate_rules WHERE author_tenant = $1";
    let mut rules = Vec::new();
    for row in connection.rows(sql, values![tenant]).await.map_err(failed)? {
        let body = row.text(0).map_err(failed)?;
        if let Entry::Rule(rule) = Entry::parse(Kind::Rule, &body).map_err(CatalogError::Invalid)?
            && grown.iter().all(|it| it.rule_id != rule.rule_id)
        {
            rules.push(*rule);
        }
    }
    // The last ones are refused.
    rules.extend(grown.into_iter().cloned());
    let found = beyond_tenant_in_redis(rules, policy);
    let found: Vec<Problem> = found.into_iter().map(|it| without_list(it, "rules")).collect();
    if found.is_empty() { Ok(()) } else { Err(CatalogError::Invalid(found)) }
}

/// The rule after a change that may take more room than before.
fn grown(change: &Change) -> Option<&RuleDocument> {
    let Some(Entry::Rule(after)) = change.after.as_deref() else { return None };
    let Some(Entry::Rule(before)) = change.before.as_deref() else { return Some(&**after) };
    let (before, after): (&RuleDocument, &RuleDocument) = (before, after);
    let counts_alike = before.identifier_type == after.identifier_type
        && before.applies_to.endpoints == after.applies_to.endpoints
        && before.consistency == after.consistency;
    let has_no_more = (before.candidate.is_some() || after.candidate.is_none())
        && (before.penalty.is_some() || after.penalty.is_none());
    (!counts_alike || !has_no_more).then_some(after)
}

const RULES: &[Kind] = &[Kind::Rule];
const ENTRIES: &[Kind] = &[Kind::Override, Kind::Whitelist, Kind::Blacklist];

fn too_much(message: String) -> CatalogError {
    let advice = "remove what is no longer needed, or ask the operator of this server for more";
    CatalogError::Invalid(vec![Problem::new("", message).with_advice(advice)])
}
