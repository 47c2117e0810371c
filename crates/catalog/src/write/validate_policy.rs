//! Refuses a write after which the catalog would be an invalid policy.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tollgate_rules::{DirectoryChange, List, Policy, PolicyDocument, Problem, Source};

use crate::db::database::{DatabaseConnection, values};
use crate::db::tables;
use crate::db::url::CatalogUrl;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::entry::{Entry, without_list};
use crate::error::CatalogError;
use crate::write::bounds::WriteBounds;
use crate::write::tier_use;

pub(crate) const OVERRIDES_OF: &str = "SELECT body FROM tollgate_overrides WHERE rule_id = $1";

/// Who the policy is for.
#[derive(Clone, Copy, Debug, Default)]
pub struct PolicyBounds {
    /// Counters are in Redis, which cannot count any limit.
    pub for_redis: bool,
    /// How much may be written.
    pub bounds: WriteBounds,
}

/// Validates the tables after these changes, within the transaction that made them. Returns the rules and tiers,
/// compiled, if some of them changed.
pub(crate) async fn check(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    changes: &[Change],
    policy_bounds: PolicyBounds,
) -> Result<Option<Policy>, CatalogError> {
    let failed = |error: sqlx::Error| CatalogError::from_database(url, &error);
    let touches = |kind: Kind| changes.iter().any(|change| change.kind == kind);
    let has_new_rules = touches(Kind::Rule) || touches(Kind::Tier);
    let mut document = PolicyDocument::default();
    for tier in entries(connection, url, Kind::Tier, changes).await? {
        add(&mut document, tier);
    }
    if has_new_rules {
        for rule in entries(connection, url, Kind::Rule, changes).await? {
            add(&mut document, rule);
        }
        // In the order of snapshots, wherever the database sorts otherwise.
        document.rules.sort_by(|one, other| one.rule_id.cmp(&other.rule_id));
        document.tiers.sort_by(|one, other| one.tier.cmp(&other.tier));
    } else {
        // An override is checked against its rule alone.
        for rule_id in rules_of_overrides(changes) {
            let rule = tables::find(connection, Kind::Rule, rule_id).await.map_err(failed)?;
            if let Some(rule) = rule {
                add(&mut document, Arc::new(rule.parse()?));
            }
        }
        // Unchanged rules are valid; those that they replace are not all here.
        document.rules.iter_mut().for_each(|rule| rule.replaces.clear());
    }
    if touches(Kind::Tier) {
        tier_use::check(connection, url, changes, &document).await?;
    }
    let source = Source::from_document(document);
    let policy = Policy::compile(&source).map_err(|found| {
        CatalogError::Invalid(found.into_iter().map(|it| without_list(it, "rules")).collect())
    })?;
    let mut problems = Vec::new();
    if policy_bounds.for_redis {
        let uncountable = tollgate_rules::uncountable_in_redis(&source, &policy);
        problems.extend(uncountable.into_iter().map(|it| without_list(it, "rules")));
    }
    for entry in changes.iter().filter_map(|change| change.after.as_deref()) {
        problems.extend(flaws(entry, &policy, policy_bounds));
        if let Entry::Override(exception) = entry {
            problems.extend(tollgate_rules::never_applies(exception, policy.rules()));
        }
    }
    // Unchanged overrides have to fit changed rules.
    for rule in changes.iter().filter(|it| it.kind == Kind::Rule && it.after.is_some()) {
        let rows = connection.rows(OVERRIDES_OF, values![rule.name.as_str()]).await;
        for row in rows.map_err(failed)? {
            let body = row.text(0).map_err(failed)?;
            match Entry::parse(Kind::Override, &body) {
                Ok(entry) => problems.extend(flaws(&entry, &policy, policy_bounds)),
                Err(found) => problems.extend(found),
            }
        }
    }
    problems.dedup();
    if !problems.is_empty() {
        return Err(CatalogError::Invalid(problems));
    }
    Ok(has_new_rules.then_some(policy))
}

/// What is wrong with an entry, given the rules and tiers it refers to.
fn flaws(entry: &Entry, policy: &Policy, policy_bounds: PolicyBounds) -> Vec<Problem> {
    let found = match entry {
        Entry::Client(it) => DirectoryChange::tier(it, policy.rules()).err(),
        Entry::Override(it) => DirectoryChange::exception(it, policy.rules()).err(),
        Entry::Whitelist(it) => DirectoryChange::list(List::Allow, it).err(),
        Entry::Blacklist(it) => DirectoryChange::list(List::Deny, it).err(),
        Entry::ApiKey(it) => it.tier.as_deref().and_then(|tier| unknown_tier(tier, policy)),
        Entry::Rule(_) | Entry::Tier(_) | Entry::Token(_) | Entry::Ban(_) => None,
    };
    let mut found: Vec<Problem> = found.into_iter().collect();
    if let Entry::Override(exception) = entry
        && policy_bounds.for_redis
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

fn rules_of_overrides(changes: &[Change]) -> BTreeSet<&str> {
    let overrides = changes.iter().filter_map(|change| match change.after.as_deref() {
        Some(Entry::Override(it)) => Some(it.rule_id.as_str()),
        _ => None,
    });
    overrides.collect()
}

/// All entries of a kind. Those that these changes wrote are not parsed again.
async fn entries(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    kind: Kind,
    changes: &[Change],
) -> Result<Vec<Arc<Entry>>, CatalogError> {
    let failed = |error: sqlx::Error| CatalogError::from_database(url, &error);
    let written: HashMap<&str, &Arc<Entry>> = changes
        .iter()
        .filter(|it| it.kind == kind)
        .filter_map(|it| Some((it.name.as_str(), it.after.as_ref()?)))
        .collect();
    let sql = format!("SELECT entry, body FROM {} ORDER BY entry", kind.table());
    let rows = connection.rows(&sql, vec![]).await.map_err(failed)?;
    let entries = rows.iter().map(|row| match written.get(row.text(0).map_err(failed)?.as_str()) {
        Some(entry) => Ok(Arc::clone(entry)),
        None => {
            let body = row.text(1).map_err(failed)?;
            Entry::parse(kind, &body).map(Arc::new).map_err(CatalogError::Invalid)
        }
    });
    entries.collect()
}

/// Adds a rule or tier to a document.
fn add(document: &mut PolicyDocument, entry: Arc<Entry>) {
    match Arc::unwrap_or_clone(entry) {
        Entry::Rule(rule) => document.rules.push(*rule),
        Entry::Tier(tier) => document.tiers.push(tier),
        _ => {}
    }
}
