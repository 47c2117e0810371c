//! Whether a catalog would still be a sound policy: asked before a change is kept.

use std::collections::BTreeSet;

use tollgate_rules::{Change as Delta, List, Policy, PolicyDocument, Problem, Source};

use crate::db::database::{Connection, values};
use crate::db::tables;
use crate::db::url::CatalogUrl;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::entry::{Entry, without_list};
use crate::error::CatalogError;
use crate::write::bounds::WriteBounds;

pub(crate) const OVERRIDES_OF: &str = "SELECT body FROM tollgate_overrides WHERE rule_id = $1";

/// Who the policy is for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Purpose {
    /// Counters are in Redis, which cannot count any limit.
    pub for_redis: bool,
    /// How much may be written.
    pub bounds: WriteBounds,
}

/// Checks what the tables hold after these changes, within the transaction that made them.
pub(crate) async fn check(
    connection: &mut Connection,
    url: &CatalogUrl,
    changes: &[Change],
    purpose: Purpose,
) -> Result<(), CatalogError> {
    let failed = |error: sqlx::Error| CatalogError::from_database(url, &error);
    let touches = |kind: Kind| changes.iter().any(|change| change.kind == kind);
    let mut document = PolicyDocument::default();
    for tier in bodies(connection, Kind::Tier).await.map_err(failed)? {
        add(&mut document, Kind::Tier, &tier)?;
    }
    if touches(Kind::Rule) || touches(Kind::Tier) {
        for rule in bodies(connection, Kind::Rule).await.map_err(failed)? {
            add(&mut document, Kind::Rule, &rule)?;
        }
    } else {
        // An override is checked against its rule alone.
        for rule_id in rules_of_overrides(changes)? {
            if let Some(rule) =
                tables::find(connection, Kind::Rule, &rule_id).await.map_err(failed)?
            {
                add(&mut document, Kind::Rule, &rule.body)?;
            }
        }
    }
    let mut problems = Vec::new();
    let source = Source::from_document(document);
    let policy = if touches(Kind::Rule) || touches(Kind::Tier) {
        Policy::compile(&source).map_err(|found| {
            CatalogError::Invalid(found.into_iter().map(|it| without_list(it, "rules")).collect())
        })?
    } else {
        // Rules that were sound remain so; those that refer to others are not all here.
        let mut alone = source.document.clone();
        alone.rules.iter_mut().for_each(|rule| rule.replaces.clear());
        Policy::compile(&Source::from_document(alone)).map_err(CatalogError::Invalid)?
    };
    if purpose.for_redis {
        let uncountable = tollgate_rules::uncountable_in_redis(&source, &policy);
        problems.extend(uncountable.into_iter().map(|it| without_list(it, "rules")));
    }
    for change in changes {
        problems.extend(flaws(change, &policy, purpose));
    }
    // Overrides that nobody touched have to make sense with rules that were.
    let changed_rules = changes.iter().filter(|it| it.kind == Kind::Rule && it.becomes.is_some());
    for rule in changed_rules {
        let rows = connection.rows(OVERRIDES_OF, values![rule.entry.as_str()]).await;
        for row in rows.map_err(failed)? {
            let body = row.text(0).map_err(failed)?;
            let untouched = Change {
                kind: Kind::Override,
                entry: rule.entry.clone(),
                tenant: None,
                author_tenant: None,
                was: None,
                becomes: Some(body),
            };
            problems.extend(flaws(&untouched, &policy, purpose));
        }
    }
    if touches(Kind::Tier) && policy.rules().tiers().next().is_some() {
        for table in ["tollgate_clients", "tollgate_api_keys"] {
            let sql = format!(
                "SELECT tier, count(*) FROM {table} WHERE tier IS NOT NULL \
                 AND tier NOT IN (SELECT entry FROM tollgate_tiers) GROUP BY tier LIMIT 1"
            );
            if let Some(row) = connection.row(&sql, vec![]).await.map_err(failed)? {
                let (tier, count) = (row.text(0).map_err(failed)?, row.count(1).map_err(failed)?);
                let who = if table.ends_with("clients") { "clients" } else { "API keys" };
                return Err(CatalogError::InUse(format!("{count} {who} are in the tier {tier}")));
            }
        }
    }
    problems.dedup();
    if problems.is_empty() { Ok(()) } else { Err(CatalogError::Invalid(problems)) }
}

/// What is wrong with the entry that a change makes, given the rules and tiers it refers to.
fn flaws(change: &Change, policy: &Policy, purpose: Purpose) -> Vec<Problem> {
    let entry = match change.entry_made() {
        Ok(Some(entry)) => entry,
        Ok(None) => return Vec::new(),
        Err(problems) => return problems,
    };
    let found = match &entry {
        Entry::Client(it) => Delta::tier(it, policy.rules()).err(),
        Entry::Override(it) => Delta::exception(it, policy.rules()).err(),
        Entry::Whitelist(it) => Delta::list(List::Allow, it).err(),
        Entry::Blacklist(it) => Delta::list(List::Deny, it).err(),
        Entry::ApiKey(it) => it.tier.as_deref().and_then(|tier| unknown_tier(tier, policy)),
        Entry::Rule(_) | Entry::Tier(_) | Entry::Token(_) | Entry::Ban(_) => None,
    };
    let mut found: Vec<Problem> = found.into_iter().collect();
    if let Entry::Override(exception) = &entry
        && purpose.for_redis
        && found.is_empty()
    {
        let document =
            PolicyDocument { overrides: vec![exception.clone()], ..PolicyDocument::default() };
        let uncountable =
            tollgate_rules::uncountable_in_redis(&Source::from_document(document), policy);
        found.extend(uncountable.into_iter().map(|it| without_list(it, "overrides")));
    }
    found
}

fn unknown_tier(tier: &str, policy: &Policy) -> Option<Problem> {
    let mut tiers = policy.rules().tiers().peekable();
    tiers.peek()?;
    let declared = tiers.collect::<Vec<_>>();
    (!declared.contains(&tier)).then(|| {
        Problem::new("tier", format!("there is no tier `{tier}`"))
            .with_advice(format!("declared are {}", declared.join(", ")))
    })
}

fn rules_of_overrides(changes: &[Change]) -> Result<BTreeSet<String>, CatalogError> {
    let mut rules = BTreeSet::new();
    for change in changes.iter().filter(|change| change.kind == Kind::Override) {
        if let Some(Entry::Override(it)) = change.entry_made().map_err(CatalogError::Invalid)? {
            rules.insert(it.rule_id);
        }
    }
    Ok(rules)
}

async fn bodies(connection: &mut Connection, kind: Kind) -> Result<Vec<String>, sqlx::Error> {
    let sql = format!("SELECT body FROM {} ORDER BY entry", kind.table());
    connection.rows(&sql, vec![]).await?.iter().map(|row| row.text(0)).collect()
}

/// Adds an entry that was kept to a document.
fn add(document: &mut PolicyDocument, kind: Kind, body: &str) -> Result<(), CatalogError> {
    match Entry::parse(kind, body).map_err(CatalogError::Invalid)? {
        Entry::Rule(rule) => document.rules.push(*rule),
        Entry::Tier(tier) => document.tiers.push(tier),
        _ => {}
    }
    Ok(())
}
