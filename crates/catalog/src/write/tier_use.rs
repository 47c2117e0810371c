//! Refuses a change of the tiers that would leave clients, API keys or rules in a tier that is not there. Where no tier
//! is declared any name is one, but a declared one goes only together with its uses.

use std::collections::BTreeSet;

use tollgate_rules::PolicyDocument;

use crate::db::database::{DatabaseConnection, values};
use crate::db::url::CatalogUrl;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::error::CatalogError;

/// How many users of a tier an error names.
const MAX_NAMED: usize = 3;

/// Which names of tiers are lost by these changes.
struct LostTiers<'a> {
    declared: BTreeSet<&'a str>,
    removed: BTreeSet<&'a str>,
}

impl LostTiers<'_> {
    fn has(&self, tier: &str) -> bool {
        let is_any_fine = self.declared.is_empty();
        self.removed.contains(tier) || (!is_any_fine && !self.declared.contains(tier))
    }
}

/// Checks the tables after these changes, given all tiers and rules.
pub(super) async fn check(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    changes: &[Change],
    document: &PolicyDocument,
) -> Result<(), CatalogError> {
    let removed = changes.iter().filter(|it| it.kind == Kind::Tier && it.after.is_none());
    let lost = LostTiers {
        declared: document.tiers.iter().map(|tier| tier.tier.as_str()).collect(),
        removed: removed.map(|it| it.name.as_str()).collect(),
    };
    let mut uses = Vec::new();
    for (kind, noun) in [(Kind::Client, "client"), (Kind::ApiKey, "API key")] {
        uses.extend(lost_entries(connection, url, kind, noun, &lost).await?);
    }
    // A rule that names a tier which was never there is invalid, rather than in the way.
    for tier in &lost.removed {
        let of_tier = document
            .rules
            .iter()
            .filter(|rule| rule.applies_to.user_tiers.iter().any(|name| name == tier));
        let names: Vec<&str> = of_tier.map(|rule| rule.rule_id.as_str()).collect();
        if !names.is_empty() {
            let verb = if names.len() == 1 {
                "1 rule is".into()
            } else {
                format!("{} rules are", names.len())
            };
            uses.push(format!("{verb} for the tier {tier}: {}", listed(&names, names.len())));
        }
    }
    if uses.is_empty() { Ok(()) } else { Err(CatalogError::InUse(uses.join("; "))) }
}

/// The clients or API keys in each lost tier.
async fn lost_entries(
    connection: &mut DatabaseConnection,
    url: &CatalogUrl,
    kind: Kind,
    noun: &str,
    lost: &LostTiers<'_>,
) -> Result<Vec<String>, CatalogError> {
    let failed = |error: sqlx::Error| CatalogError::from_database(url, &error);
    let table = kind.table();
    let undeclared = format!(
        "SELECT tier, count(*) FROM {table} WHERE tier IS NOT NULL \
         AND tier NOT IN (SELECT entry FROM tollgate_tiers) GROUP BY tier ORDER BY tier"
    );
    let named =
        format!("SELECT entry FROM {table} WHERE tier = $1 ORDER BY entry LIMIT {MAX_NAMED}");
    let mut uses = Vec::new();
    for row in connection.rows(&undeclared, vec![]).await.map_err(failed)? {
        let (tier, count) = (row.text(0).map_err(failed)?, row.count(1).map_err(failed)?);
        if !lost.has(&tier) {
            continue;
        }
        let rows = connection.rows(&named, values![tier.as_str()]).await.map_err(failed)?;
        let names = rows.iter().map(|row| row.text(0).map(|name| plain_name(&name)));
        let names: Vec<String> = names.collect::<Result<_, _>>().map_err(failed)?;
        let verb = if count == 1 { format!("1 {noun} is") } else { format!("{count} {noun}s are") };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        // Until a tier is declared, a client can be in any; from then on, in those that are declared.
        let why = if lost.removed.contains(tier.as_str()) {
            ""
        } else {
            ", which has to be declared too, since other names are no tiers once one is declared"
        };
        uses.push(format!("{verb} in the tier {tier}{why}: {}", listed(&names, count)));
    }
    Ok(uses)
}

/// The first names of so many.
fn listed(names: &[impl AsRef<str>], count: usize) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_NAMED).map(AsRef::as_ref).collect();
    match count.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The name of an entry for people: clients are named by lists of identifiers.
fn plain_name(name: &str) -> String {
    let parts: Result<Vec<String>, _> = serde_json::from_str(name);
    parts.map_or_else(|_| name.to_owned(), |parts| parts.join(" "))
}
