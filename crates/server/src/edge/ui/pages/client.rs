//! One client: what applies to it, what is left, what happened.

use tollgate_api::{ExplainResponse, ListName, RuleExplanation, State};
use tollgate_dashboard::model::{
    Client, ClientBan, ClientLimit, ClientListing, ClientTier, DecisionRow, Identifier,
    OverrideRow, Section,
};

use super::explained::{check_of, origin_of, quota_of};
use super::lists::{OverrideJson, OverridesJson};
use crate::admin::auth::Right;
use crate::edge::ui::convert::{DecisionJson, identifier, section, time, time_of};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;

/// How many decisions of a client are listed.
const DECISIONS: &str = "20";
/// How many identifiers name a client, at most.
const MAX_IDENTIFIERS: usize = 16;

/// A page of decisions of the log.
#[derive(Debug, serde::Deserialize)]
pub(super) struct DecisionsJson {
    pub(super) records: Vec<DecisionJson>,
}

/// The pairs of `type` and `value` in a query or a form, in their order.
pub(super) fn pairs<'a>(
    fields: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<Identifier>, PageProblem> {
    let (mut types, mut values) = (Vec::new(), Vec::new());
    for (name, value) in fields {
        match name {
            "type" => types.push(value),
            "value" => values.push(value.trim()),
            _ => {}
        }
    }
    let pairs: Vec<Identifier> = types
        .iter()
        .zip(&values)
        .filter(|(_, value)| !value.is_empty())
        .map(|(kind, value)| identifier(kind, value))
        .collect();
    if pairs.is_empty() || pairs.len() > MAX_IDENTIFIERS || types.len() != values.len() {
        let detail =
            "name a client by the type of its identifier and the value, like user_id and alice";
        return Err(PageProblem::invalid(detail));
    }
    Ok(pairs)
}

/// What the page shows.
pub(super) async fn gather(visit: &Visit) -> Result<Client, PageProblem> {
    visit.require(Right::Viewer)?;
    let identifiers = pairs(visit.query.iter().map(|(name, value)| (&**name, &**value)))?;
    let parameter = |name| visit.parameter(name).unwrap_or_default().to_owned();
    let (endpoint, method) = (parameter("endpoint"), parameter("method"));
    let explained = visit.explain(&check_of(&identifiers, &endpoint, &method)).await?;
    // A candidate is no limit of the client.
    let rules = explained.rules.iter().filter(|rule| rule.candidate_of.is_none());
    let applying = rules.clone().filter(|rule| rule.applies);
    let mut limits: Vec<ClientLimit> =
        applying.clone().filter_map(|rule| limit_of(visit, rule, &explained)).collect();
    limits.sort_by(|one, other| left(one).total_cmp(&left(other)));
    let banned = rules.clone().filter(|rule| rule.banned_until.is_some());
    let not_applying = rules.filter(|rule| !rule.applies);
    Ok(Client {
        endpoint,
        method,
        tier: explained.tier.clone().map(|name| ClientTier {
            name,
            origin: origin_of(&explained.tier_from),
            is_assigned: matches!(explained.tier_from, tollgate_api::TierOrigin::Directory(_)),
        }),
        listing: explained.listed.as_ref().map(|it| ClientListing {
            is_allowed: it.list == ListName::Allow,
            entry: listed_by(&it.by, &identifiers),
            reason: it.reason.clone(),
            expires_at: it.expires_at.as_deref().and_then(time_of),
        }),
        bans: banned.map(|rule| ban_of(rule, &identifiers)).collect(),
        limits,
        not_applying: not_applying.map(|it| (it.rule_id.clone(), it.because.clone())).collect(),
        decisions: decisions(visit, &identifiers).await,
        overrides: section(overrides(visit, &identifiers).await),
        tiers: tiers(visit).await,
        identifiers,
    })
}

/// The share of a limit that is left.
fn left(limit: &ClientLimit) -> f64 {
    if limit.capacity == 0 { 0.0 } else { limit.remaining as f64 / limit.capacity as f64 }
}

fn limit_of(
    visit: &Visit,
    rule: &RuleExplanation,
    explained: &ExplainResponse,
) -> Option<ClientLimit> {
    let figures = explained.figures.iter().find(|it| it.rule_id == rule.rule_id)?;
    let after = |millis: u64| time(visit.now()).plus_millis(millis);
    Some(ClientLimit {
        rule_id: rule.rule_id.clone(),
        quota: quota_of(&rule.quota, rule),
        key: rule.key.iter().map(|it| identifier(&it.identifier_type, &it.value)).collect(),
        capacity: figures.limit,
        remaining: figures.remaining,
        resets_at: figures.next_ms.map(after),
        full_at: Some(after(figures.reset_ms)),
        is_warned: figures.state != State::Normal,
        is_shadow: rule.log_only,
        is_override: rule.quota.override_by.is_some(),
        override_until: rule.quota.override_expires_at.as_deref().and_then(time_of),
    })
}

/// The entry that names a client: by some of its identifiers, or by a network.
fn listed_by(by: &str, identifiers: &[Identifier]) -> Vec<Identifier> {
    if by.contains('/') {
        return vec![identifier("ip", by)];
    }
    let types: Vec<&str> = by.split([',', '+']).map(str::trim).collect();
    let named = identifiers.iter().filter(|it| types.contains(&it.identifier_type.as_str()));
    let named: Vec<Identifier> = named.cloned().collect();
    if named.is_empty() { identifiers.to_vec() } else { named }
}

fn ban_of(rule: &RuleExplanation, identifiers: &[Identifier]) -> ClientBan {
    // The key shows secrets cut short; the page knows them as they were typed.
    let value = |kind: &str, shown: &str| {
        let typed = identifiers.iter().find(|it| it.identifier_type == kind);
        typed.map_or_else(|| shown.to_owned(), |it| it.value.clone())
    };
    ClientBan {
        rule_id: rule.rule_id.clone(),
        reason: "it kept exceeding the limit".to_owned(),
        until: rule.banned_until.as_deref().and_then(time_of).unwrap_or_default(),
        identifier: rule.key.iter().map(|it| value(&it.identifier_type, &it.value)).collect(),
    }
}

/// The last decisions about a client, by the name that it has in the log.
async fn decisions(visit: &Visit, identifiers: &[Identifier]) -> Section<Vec<DecisionRow>> {
    let by = |kind: &str| identifiers.iter().find(|it| it.identifier_type == kind);
    let named = ["user_id", "api_key", "ip", "tenant"].into_iter().find_map(by);
    let Some(named) = named.or_else(|| identifiers.first()) else { return Section::default() };
    let query = [("client", named.value.as_str()), ("limit", DECISIONS)];
    let found = visit.read::<DecisionsJson>("/api/v1/audit/decisions", &query).await;
    section(found.map(|page| page.records.into_iter().map(DecisionJson::into_row).collect()))
}

async fn overrides(
    visit: &Visit,
    identifiers: &[Identifier],
) -> Result<Vec<OverrideRow>, PageProblem> {
    let mut query: Vec<(&str, &str)> = Vec::new();
    for it in identifiers {
        query.push(("identifier_type", &it.identifier_type));
        query.push(("identifier", &it.value));
    }
    query.push(("detail", "true"));
    let found: OverridesJson = visit.read("/api/v1/overrides", &query).await?;
    let can_remove = visit.may(Right::RuleEditor);
    Ok(found.overrides.into_iter().map(|it| OverrideJson::into_row(it, can_remove)).collect())
}

/// The names of the tiers; none if they cannot be read.
pub(super) async fn tiers(visit: &Visit) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct TiersJson {
        tiers: Vec<TierJson>,
    }
    #[derive(serde::Deserialize)]
    struct TierJson {
        tier: String,
    }

    let found = visit.read::<TiersJson>("/api/v1/tiers", &[]).await;
    found.map_or_else(|_| Vec::new(), |it| it.tiers.into_iter().map(|it| it.tier).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_named_by_pairs() {
        let read = |query: &[(&'static str, &'static str)]| {
            let found = pairs(query.iter().copied()).ok()?;
            Some(found.iter().map(|it| format!("{}={}", it.identifier_type, it.value)).collect())
        };
        let one = [("type", "user_id"), ("value", " alice "), ("endpoint", "/a")];
        assert_eq!(read(&one), Some(vec!["user_id=alice".to_owned()]));
        let two = [("type", "user_id"), ("value", "a"), ("type", "tenant"), ("value", "b")];
        assert_eq!(read(&two), Some(vec!["user_id=a".to_owned(), "tenant=b".to_owned()]));
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("type", "user_id")]), None);
        assert_eq!(read(&[("type", "user_id"), ("value", "")]), None);
    }
}
