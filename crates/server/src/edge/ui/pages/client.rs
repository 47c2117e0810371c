//! One client: what applies to it, what is left, what happened.

use tollgate_api::{ExplainResponse, RuleExplanation, State};
use tollgate_dashboard::model::{Client, ClientLimit, ClientTier, Identifier, OverrideRow};

use super::explained::{check_of, origin_of, quota_of};
use super::lists::{OverrideJson, OverridesJson};
use super::{client_decisions, client_key, client_standing};
use crate::admin::auth::Right;
use crate::edge::ui::convert::{DecisionJson, identifier, section, time, time_of};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;

/// The identifier whose value is a secret.
pub(super) const API_KEY: &str = "api_key";
/// How many identifiers name a client, at most.
const MAX_IDENTIFIERS: usize = 16;

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
    gather_of(visit, identifiers, parameter("endpoint"), parameter("method")).await
}

/// What the page of a client shows.
pub(super) async fn gather_of(
    visit: &Visit,
    mut identifiers: Vec<Identifier>,
    endpoint: String,
    method: String,
) -> Result<Client, PageProblem> {
    visit.require(Right::Viewer)?;
    let key = client_key::of(visit, &mut identifiers);
    let explained = visit.explain(&check_of(&identifiers, &endpoint, &method)).await?;
    // A candidate is no limit of the client.
    let rules = explained.rules.iter().filter(|rule| rule.candidate_of.is_none());
    let applying = rules.clone().filter(|rule| rule.applies);
    let mut limits: Vec<ClientLimit> =
        applying.clone().filter_map(|rule| limit_of(visit, rule, &explained)).collect();
    let decided = client_decisions::read(visit, &identifiers).await;
    for limit in &mut limits {
        limit.refused = client_decisions::last_refused(&decided, &limit.rule_id);
    }
    let refused = client_decisions::refused_limits(visit, &identifiers, &decided, &limits).await;
    limits.extend(refused);
    limits.sort_by(|one, other| left(one).total_cmp(&left(other)));
    client_decisions::put_candidates_below(&mut limits);
    // Digests stand for keys, and counters are kept by the keys themselves.
    for limit in &mut limits {
        limit.is_unknown = limit.key.iter().any(|it| it.identifier_type == API_KEY)
            && (limit.with.iter().any(client_key::is_digest)
                || identifiers.iter().any(client_key::is_digest));
    }
    let not_applying = rules.clone().filter(|rule| !rule.applies);
    let not_applying = not_applying
        .filter(|rule| limits.iter().all(|limit| limit.rule_id != rule.rule_id))
        .map(|it| (it.rule_id.clone(), it.because.clone()))
        .collect();
    let bans = client_standing::bans(visit, &identifiers, &explained);
    let listings = client_standing::listings(visit, &identifiers, &explained).await;
    Ok(Client {
        endpoint,
        method,
        tier: explained.tier.clone().map(|name| ClientTier {
            name,
            origin: origin_of(&explained.tier_from),
            is_assigned: matches!(explained.tier_from, tollgate_api::TierOrigin::Directory(_)),
        }),
        key,
        listings,
        bans,
        limits,
        degraded: explained.degraded.clone(),
        not_applying,
        seen_with: client_decisions::others(&identifiers, &decided),
        decisions: section(
            decided.map(|found| found.into_iter().map(DecisionJson::into_row).collect()),
        ),
        overrides: section(overrides(visit, &identifiers).await),
        tiers: tiers(visit).await,
        mistake: None,
        identifiers,
    })
}

/// The share of a limit that is left.
fn left(limit: &ClientLimit) -> f64 {
    if limit.capacity == 0 { 0.0 } else { limit.remaining as f64 / limit.capacity as f64 }
}

/// What is left of a limit, by an explanation.
pub(super) fn limit_of(
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
        resets_at: figures.window_reset_ms.map(after),
        full_at: Some(after(figures.reset_ms)),
        is_warned: figures.state != State::Normal,
        is_shadow: rule.log_only,
        candidate_of: rule.candidate_of.clone(),
        is_override: rule.quota.override_by.is_some(),
        override_until: rule.quota.override_expires_at.as_deref().and_then(time_of),
        ..ClientLimit::default()
    })
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
