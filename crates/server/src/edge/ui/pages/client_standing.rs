//! What goes before the limits of a client, whatever it requests: its bans, and the lists that it is on.

use serde::Deserialize;
use tollgate_api::{ExplainResponse, ListName, RuleExplanation};
use tollgate_dashboard::model::{ClientBan, ClientListing, Identifier};

use super::client_forms::query_of;
use crate::edge::ui::convert::{identifier, time, time_of};
use crate::edge::ui::visit::Visit;

/// Why rules ban.
const PENALTY: &str = "it kept exceeding the limit";

/// An entry of the allow list or the deny list.
#[derive(Debug, Deserialize)]
struct ListedJson {
    #[serde(alias = "whitelist", alias = "blacklist")]
    entries: Vec<ListedListedEntryJson>,
}

#[derive(Debug, Deserialize)]
struct ListedListedEntryJson {
    reason: Option<String>,
    expires_at: Option<String>,
}

/// The bans of a client: also by rules that the request of the page is not for.
pub(super) fn bans(
    visit: &Visit,
    identifiers: &[Identifier],
    explained: &ExplainResponse,
) -> Vec<ClientBan> {
    let explained = explained.rules.iter().filter(|rule| rule.banned_until.is_some());
    let mut bans: Vec<ClientBan> = explained.map(|rule| ban_of(rule, identifiers)).collect();
    let (policy, now) = (visit.ui.app.limiter.policy(), visit.now());
    for rule in policy.rules().iter().filter(|rule| rule.penalty.is_some()) {
        if bans.iter().any(|ban| *ban.rule_id == *rule.id) {
            continue;
        }
        let value = |kind: String| {
            let found = identifiers.iter().find(|it| it.identifier_type == kind);
            found.map(|it| it.value.clone())
        };
        let values: Option<Vec<String>> =
            rule.identifiers.iter().map(|it| value(it.to_string())).collect();
        let Some(values) = values else { continue };
        let directory = policy.directory();
        let Ok(subject) = directory.parse_subject(rule, &values) else { continue };
        let Some(until) = directory.ban_end(&rule.id, &subject).filter(|end| *end > now) else {
            continue;
        };
        bans.push(ClientBan {
            rule_id: rule.id.to_string(),
            reason: PENALTY.to_owned(),
            until: time(until),
            identifier: values,
        });
    }
    bans
}

fn ban_of(rule: &RuleExplanation, identifiers: &[Identifier]) -> ClientBan {
    // The key shows secrets cut short; the page knows them as they were typed.
    let value = |kind: &str, shown: &str| {
        let typed = identifiers.iter().find(|it| it.identifier_type == kind);
        typed.map_or_else(|| shown.to_owned(), |it| it.value.clone())
    };
    ClientBan {
        rule_id: rule.rule_id.clone(),
        reason: PENALTY.to_owned(),
        until: rule.banned_until.as_deref().and_then(time_of).unwrap_or_default(),
        identifier: rule.key.iter().map(|it| value(&it.identifier_type, &it.value)).collect(),
    }
}

/// The lists that a client is on: the entry that decides first, then those of single identifiers.
pub(super) async fn listings(
    visit: &Visit,
    identifiers: &[Identifier],
    explained: &ExplainResponse,
) -> Vec<ClientListing> {
    let deciding = explained.listed.as_ref().map(|it| ClientListing {
        is_allowed: it.list == ListName::Allow,
        entry: listed_by(&it.by, identifiers),
        reason: it.reason.clone(),
        expires_at: it.expires_at.as_deref().and_then(time_of),
    });
    let mut found: Vec<ClientListing> = deciding.into_iter().collect();
    let singles = identifiers.iter().map(std::slice::from_ref);
    let whole = (identifiers.len() > 1).then_some(identifiers);
    for named in singles.chain(whole) {
        for (list, is_allowed) in [("blacklist", false), ("whitelist", true)] {
            let path = format!("/api/v1/{list}");
            // What cannot be read is not shown; the deciding entry is in memory.
            let entries = visit.read::<ListedJson>(&path, &query_of(named)).await;
            for entry in entries.into_iter().flat_map(|it| it.entries) {
                let listing = ClientListing {
                    is_allowed,
                    entry: named.to_vec(),
                    reason: entry.reason,
                    expires_at: entry.expires_at.as_deref().and_then(time_of),
                };
                let is_same =
                    |it: &ClientListing| it.is_allowed == is_allowed && it.entry == listing.entry;
                if !found.iter().any(is_same) {
                    found.push(listing);
                }
            }
        }
    }
    found
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
