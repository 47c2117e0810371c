//! Who may change an entry: operators all of them, administrators of a tenant those that they wrote themselves.

use tollgate_rules::Problem;
use tollgate_rules::document::OverrideDocument;

use crate::db::database::{DatabaseConnection, values};
use crate::db::tables::Stored;
use crate::db::url::CatalogUrl;
use crate::entry::access::digest_of;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::entry::{BanEntry, Entry};
use crate::error::CatalogError;
use crate::write::Author;

/// Rules that administrators of a tenant wrote, and that replace others.
const REPLACING: &str = "SELECT entry, body, author_tenant FROM tollgate_rules \
    WHERE author_tenant IS NOT NULL AND body LIKE '%\"replaces\"%'";

/// The longest name of a tenant that begins ids of rules, in bytes: an id has 100.
const MAX_PREFIX: usize = 60;

/// The content types of refusals by rules that administrators of a tenant write.
const TENANT_CONTENT_TYPES: [&str; 3] =
    ["application/json", "application/problem+json", "text/plain"];

/// Which tenant a rule belongs to, and administrators of which tenant wrote it.
#[derive(Default)]
struct RuleOwner {
    tenant: Option<String>,
    author_tenant: Option<String>,
}

/// Whether an author can see an entry. Administrators of a tenant see all entries about it.
pub(crate) fn is_visible(author: &Author, stored: &Stored) -> bool {
    author.tenant.is_none() || author.tenant == stored.tenant
}

/// Refuses a `rule_id` for a new rule, unless it is one of the author's. The names that administrators of a
/// tenant can give are of that tenant alone, so that they learn nothing of other rules.
pub(crate) fn check_new_rule_id(
    author: &Author,
    rule_id: &str,
    is_taken: bool,
) -> Result<(), CatalogError> {
    let Some(tenant) = &author.tenant else { return Ok(()) };
    if !is_rule_id_of(tenant, rule_id) {
        let prefix = rule_prefix(tenant);
        return Err(CatalogError::NotYours(format!(
            "the rule {rule_id} is not one of the tenant {tenant}: a new rule needs a rule_id \
             `{prefix}NAME`, with no dot in NAME"
        )));
    }
    if is_taken {
        return Err(CatalogError::NotYours(format!(
            "operators have reserved the rule_id {rule_id}: use another one"
        )));
    }
    Ok(())
}

/// Whether administrators of a tenant may give this id to a new rule.
#[must_use]
pub fn is_rule_id_of(tenant: &str, rule_id: &str) -> bool {
    let name = rule_id.strip_prefix(rule_prefix(tenant).as_str());
    // Without another dot: `a.b.c` is a name of the tenant `a.b`, not of `a`.
    name.is_some_and(|name| !name.is_empty() && !name.contains('.'))
}

/// What ids of rules begin with that administrators of a tenant make: the tenant and a dot. A tenant that
/// cannot be part of a `rule_id` has a digest in its place.
#[must_use]
pub fn rule_prefix(tenant: &str) -> String {
    let accepted = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
    if tenant.len() <= MAX_PREFIX && tenant.bytes().all(accepted) {
        return format!("{tenant}.");
    }
    let digest = digest_of(tenant);
    format!("tenant-{}.", digest.get(..16).unwrap_or(&digest))
}

/// Refuses to change an entry that the author did not write. Operators may change everything.
pub(crate) async fn check_author(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    author: &Author,
    stored: &Stored,
    entry: &Entry,
) -> Result<(), CatalogError> {
    let Some(tenant) = &author.tenant else { return Ok(()) };
    let author_tenant = match entry {
        Entry::Ban(ban) => {
            let rule = find_rule(connection, url, &ban.rule_id).await?;
            rule.and_then(|rule| rule.author_tenant)
        }
        _ => stored.author_tenant.clone(),
    };
    if author_tenant.as_ref() == Some(tenant) {
        return Ok(());
    }
    Err(read_only(tenant, stored.kind, &stored.name))
}

/// Sets the tenant of each change, and refuses changes that the author may not make.
pub(crate) async fn settle(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    author: &Author,
    changes: &mut [Change],
) -> Result<(), CatalogError> {
    let mut owners = Vec::with_capacity(changes.len());
    for change in changes.iter() {
        let before = owner(connection, url, change.before.as_deref(), changes).await?;
        let after = owner(connection, url, change.after.as_deref(), changes).await?;
        if let Some(tenant) = &author.tenant {
            if after.as_ref().is_some_and(|owner| owner.as_ref() != Some(tenant)) {
                return Err(not_yours(tenant, change));
            }
            may_change(tenant, change)?;
            check_refusal(change)?;
            for rule_id in change.after.iter().flat_map(|entry| loosened(entry)) {
                let rule = rule_owner(connection, url, rule_id, changes).await?;
                check_loosened(tenant, change, rule_id, &rule)?;
            }
        }
        owners.push(after.or(before).flatten());
    }
    if author.tenant.is_none() {
        refuse_replaced(connection, url, changes).await?;
    }
    for (change, owner) in changes.iter_mut().zip(owners) {
        change.tenant = owner;
    }
    Ok(())
}

/// The tenant of an entry, if there is an entry.
async fn owner(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    entry: Option<&Entry>,
    changes: &[Change],
) -> Result<Option<Option<String>>, CatalogError> {
    Ok(match entry {
        None => None,
        // The tenant of the rule counts, not the one in the entry.
        Some(
            Entry::Override(OverrideDocument { rule_id, .. })
            | Entry::Ban(BanEntry { rule_id, .. }),
        ) => Some(rule_owner(connection, url, rule_id, changes).await?.tenant),
        Some(entry) => Some(entry.tenant().map(str::to_owned)),
    })
}

/// The tenant of a rule after these changes; of a removed rule, the tenant before.
async fn rule_owner(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    rule_id: &str,
    changes: &[Change],
) -> Result<RuleOwner, CatalogError> {
    let changed = changes.iter().find(|it| it.kind == Kind::Rule && it.name == rule_id);
    if let Some(changed) = changed
        && let Some(rule) = &changed.after
    {
        let tenant = rule.tenant().map(str::to_owned);
        return Ok(RuleOwner { tenant, author_tenant: changed.author_tenant.clone() });
    }
    Ok(find_rule(connection, url, rule_id).await?.unwrap_or_default())
}

async fn find_rule(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    rule_id: &str,
) -> Result<Option<RuleOwner>, CatalogError> {
    let sql = "SELECT tenant, author_tenant FROM tollgate_rules WHERE entry = $1";
    let failed = |error: sqlx::Error| CatalogError::from_database(url, &error);
    let Some(row) = connection.row(sql, values![rule_id]).await.map_err(failed)? else {
        return Ok(None);
    };
    let (tenant, author_tenant) = (row.optional_text(0), row.optional_text(1));
    let (tenant, author_tenant) = (tenant.map_err(failed)?, author_tenant.map_err(failed)?);
    Ok(Some(RuleOwner { tenant, author_tenant }))
}

fn not_yours(tenant: &str, change: &Change) -> CatalogError {
    let Change { kind, name, .. } = change;
    CatalogError::NotYours(format!("the {kind} {name} is not one of the tenant {tenant}"))
}

fn read_only(tenant: &str, kind: Kind, name: &str) -> CatalogError {
    CatalogError::ReadOnly(format!(
        "the {kind} {name} belongs to operators: administrators of the tenant {tenant} can read it, but \
         not change it"
    ))
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

/// Refuses a rule of a tenant whose refusals browsers could show as pages of the operators' service.
fn check_refusal(change: &Change) -> Result<(), CatalogError> {
    let Some(Entry::Rule(rule)) = change.after.as_deref() else { return Ok(()) };
    let refusal = rule.refusal.as_ref();
    let Some(text) = refusal.and_then(|it| it.content_type.as_deref()) else { return Ok(()) };
    let essence = text.split(';').next().unwrap_or_default().trim();
    if TENANT_CONTENT_TYPES.iter().any(|it| it.eq_ignore_ascii_case(essence)) {
        return Ok(());
    }
    let message = "only operators write rules that refuse with this content type: the text could be a page, \
                   which browsers show in the name of the service";
    let advice = format!("use {}", TENANT_CONTENT_TYPES.join(", "));
    let problem = Problem::new("refusal.content_type", message).with_advice(advice);
    Err(CatalogError::Invalid(vec![Problem { rule: Some(change.name.clone()), ..problem }]))
}

/// The rules that an entry changes for some or all clients.
fn loosened(entry: &Entry) -> Vec<&str> {
    match entry {
        Entry::Rule(rule) => rule.replaces.iter().map(String::as_str).collect(),
        Entry::Override(OverrideDocument { rule_id, .. })
        | Entry::Ban(BanEntry { rule_id, .. }) => {
            vec![rule_id]
        }
        _ => Vec::new(),
    }
}

/// Refuses to loosen a rule that administrators of the tenant did not write.
fn check_loosened(
    tenant: &str,
    change: &Change,
    rule_id: &str,
    rule: &RuleOwner,
) -> Result<(), CatalogError> {
    let (is_own, is_theirs) =
        (rule.tenant.as_deref() == Some(tenant), rule.author_tenant.as_deref() == Some(tenant));
    match (change.kind, is_own, is_theirs) {
        (_, true, true) => Ok(()),
        (Kind::Rule, false, _) => Err(CatalogError::NotYours(format!(
            "replaces: the rule {rule_id} is not one of the tenant {tenant}, and stays in force"
        ))),
        (_, false, _) => Err(not_yours(tenant, change)),
        (_, true, false) => Err(read_only(tenant, Kind::Rule, rule_id)),
    }
}

/// Refuses a rule of operators that would not be in force, because a rule that administrators of a tenant wrote
/// replaces it.
async fn refuse_replaced(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    changes: &[Change],
) -> Result<(), CatalogError> {
    let failed = |error: sqlx::Error| CatalogError::from_database(url, &error);
    let rules: Vec<&Change> = changes.iter().filter(|it| it.kind == Kind::Rule).collect();
    if rules.iter().all(|it| it.after.is_none()) {
        return Ok(());
    }
    for row in connection.rows(REPLACING, vec![]).await.map_err(failed)? {
        let (name, body) = (row.text(0).map_err(failed)?, row.text(1).map_err(failed)?);
        let tenant = row.text(2).map_err(failed)?;
        let Entry::Rule(rule) = Entry::parse(Kind::Rule, &body).map_err(CatalogError::Invalid)?
        else {
            continue;
        };
        let is_replaced = |it: &&&Change| it.after.is_some() && rule.replaces.contains(&it.name);
        if let Some(replaced) = rules.iter().find(is_replaced)
            && !rules.iter().any(|it| it.name == name)
        {
            return Err(CatalogError::InUse(format!(
                "the rule {name}, which administrators of the tenant {tenant} wrote, replaces the rule {}: \
                 change or remove it first, or in the same document",
                replaced.name
            )));
        }
    }
    Ok(())
}
