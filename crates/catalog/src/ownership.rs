//! Whose an entry is, and that administrators of a tenant change nothing else.

use tollgate_rules::document::OverrideDocument;

use crate::change::Change;
use crate::database::{Connection, values};
use crate::entry::{Ban, Entry};
use crate::error::CatalogError;
use crate::kind::Kind;
use crate::url::CatalogUrl;
use crate::write::Author;

/// Notes the tenant of each change, and refuses those that the author may not make.
pub(crate) async fn settle(
    connection: &mut Connection,
    url: &CatalogUrl,
    author: &Author,
    changes: &mut [Change],
) -> Result<(), CatalogError> {
    let mut owners = Vec::with_capacity(changes.len());
    for change in changes.iter() {
        let before = change.entry_before().map_err(CatalogError::Invalid)?;
        let after = change.entry_made().map_err(CatalogError::Invalid)?;
        let before = owner(connection, url, before.as_ref(), changes).await?;
        let after = owner(connection, url, after.as_ref(), changes).await?;
        if let Some(tenant) = &author.tenant {
            let is_own = |owner: &Option<Option<String>>| {
                owner.as_ref().is_none_or(|owner| owner.as_deref() == Some(tenant))
            };
            if !is_own(&before) || !is_own(&after) {
                return Err(not_yours(tenant, change));
            }
            may_change(tenant, change)?;
            check_replaced(connection, url, tenant, change, changes).await?;
        }
        owners.push(after.or(before).flatten());
    }
    for (change, owner) in changes.iter_mut().zip(owners) {
        change.tenant = owner;
    }
    Ok(())
}

/// The tenant of an entry, if there is an entry.
async fn owner(
    connection: &mut Connection,
    url: &CatalogUrl,
    entry: Option<&Entry>,
    changes: &[Change],
) -> Result<Option<Option<String>>, CatalogError> {
    Ok(match entry {
        None => None,
        // Whatever they say of themselves.
        Some(
            Entry::Override(OverrideDocument { rule_id, .. }) | Entry::Ban(Ban { rule_id, .. }),
        ) => Some(tenant_of_rule(connection, url, rule_id, changes).await?),
        Some(entry) => Some(entry.tenant().map(str::to_owned)),
    })
}

async fn tenant_of_rule(
    connection: &mut Connection,
    url: &CatalogUrl,
    rule_id: &str,
    changes: &[Change],
) -> Result<Option<String>, CatalogError> {
    let changed = changes.iter().find(|it| it.kind == Kind::Rule && it.entry == rule_id);
    if let Some(changed) = changed
        && let Some(rule) = changed.entry_made().map_err(CatalogError::Invalid)?
    {
        return Ok(rule.tenant().map(str::to_owned));
    }
    let sql = "SELECT tenant FROM tollgate_rules WHERE entry = $1";
    let failed = |error: sqlx::Error| CatalogError::from_database(url, &error);
    let row = connection.row(sql, values![rule_id]).await.map_err(failed)?;
    row.map_or(Ok(None), |row| row.optional_text(0)).map_err(failed)
}

fn not_yours(tenant: &str, change: &Change) -> CatalogError {
    let Change { kind, entry, .. } = change;
    CatalogError::NotYours(format!("the {kind} {entry} is not one of the tenant {tenant}"))
}

/// Administrators of a tenant can only tighten: an allow list would lift limits that are not theirs.
fn may_change(tenant: &str, change: &Change) -> Result<(), CatalogError> {
    match change.kind {
        Kind::Rule | Kind::Override | Kind::Blacklist | Kind::Ban => Ok(()),
        Kind::Whitelist => Err(CatalogError::NotYours(format!(
            "the whitelist lifts all limits, also those that are not of the tenant {tenant}"
        ))),
        Kind::Tier | Kind::Client | Kind::ApiKey | Kind::Token => Err(not_yours(tenant, change)),
    }
}

/// A rule of a tenant that took the place of others would loosen.
async fn check_replaced(
    connection: &mut Connection,
    url: &CatalogUrl,
    tenant: &str,
    change: &Change,
    changes: &[Change],
) -> Result<(), CatalogError> {
    let Some(Entry::Rule(rule)) = change.entry_made().map_err(CatalogError::Invalid)? else {
        return Ok(());
    };
    for replaced in &rule.replaces {
        if tenant_of_rule(connection, url, replaced, changes).await?.as_deref() != Some(tenant) {
            return Err(CatalogError::NotYours(format!(
                "replaces: the rule {replaced} is not one of the tenant {tenant}, and stays in force"
            )));
        }
    }
    Ok(())
}
