//! What the log of decisions knows of the request of a decision: its identifiers, and what each rule counted it by. Rules
//! count by more than the name of the client, so an explanation without it does not say whose limit was reached.

use std::net::IpAddr;

use tollgate::rules::{Identifier, Policy};
use tollgate_api::{DecisionRecord, RecordedKey, RecordedPart, RecordedRequest};

use super::decisions::logged;
use crate::app::state::Shared;
use crate::check::decision_id::node_in;
use crate::observe::audit_log::log::DecisionEntry;

/// How many bits of an IPv6 address rules count by.
const SITE_BITS: u32 = 64;

/// Adds to the explanation of a decision what is recorded of its request; the node only if the reader may see machines.
pub(super) async fn add(app: &Shared, id: &str, explained: String, has_nodes: bool) -> String {
    let Ok(mut record) = serde_json::from_str::<DecisionRecord<'_>>(&explained) else {
        return explained;
    };
    // The node that decided may have told it, if it was asked.
    if record.request == RecordedRequest::default() {
        record.request = recorded(app, id).await.unwrap_or_default();
    }
    record.request.node = node_in(id).filter(|_| has_nodes).map(str::to_owned);
    record.request.keys = keys(&app.limiter.policy(), &record);
    serde_json::to_string(&record).unwrap_or(explained)
}

/// Adds to the explanation for another node what this one keeps of the request.
pub(crate) fn add_kept(app: &Shared, id: &str, explained: String) -> String {
    let Some(request) = kept(app, id) else { return explained };
    let Ok(mut record) = serde_json::from_str::<DecisionRecord<'_>>(&explained) else {
        return explained;
    };
    record.request = request;
    serde_json::to_string(&record).unwrap_or(explained)
}

/// What this node keeps of a request: the last ones that were recorded or tried.
fn kept(app: &Shared, id: &str) -> Option<RecordedRequest> {
    let entry = app.audit_log.tail.find(id).map(|entry| (*entry).clone().into_request());
    entry.or_else(|| app.audit_log.tried.find(id))
}

/// The request as it is recorded. A node keeps the last ones, before they are in the log.
async fn recorded(app: &Shared, id: &str) -> Option<RecordedRequest> {
    if let Some(request) = kept(app, id) {
        return Some(request);
    }
    // Without the log, the explanation is still worth something.
    logged(app, id, None)
        .await
        .ok()
        .flatten()
        .map(|found| DecisionEntry::from(found).into_request())
}

/// What the rules of a decision count by, with the values that are recorded.
fn keys(policy: &Policy, record: &DecisionRecord<'_>) -> Vec<RecordedKey> {
    let mut ids: Vec<&str> = record.rules.iter().map(|rule| &*rule.rule_id).collect();
    if let Some(rule_id) = record.answer.rule_id.as_deref().filter(|it| !ids.contains(it)) {
        ids.push(rule_id);
    }
    let key = |rule_id: &&str| {
        let rule = policy.rules().find_counter(rule_id)?;
        let parts = rule.identifiers.iter().map(|it| part(it, &record.request));
        Some(RecordedKey { rule_id: (*rule_id).to_owned(), key: parts.collect() })
    };
    ids.iter().filter_map(key).collect()
}

fn part(identifier: &Identifier, request: &RecordedRequest) -> RecordedPart {
    let identifier_type = identifier.to_string();
    let value = match identifier {
        Identifier::Path => request.endpoint.clone(),
        Identifier::Ip => request.identifiers.get(&identifier_type).map(|it| site_of(it)),
        _ => request.identifiers.get(&identifier_type).cloned(),
    };
    RecordedPart { identifier_type, value }
}

/// The address that a rule counts by: of IPv6, the network of one site.
fn site_of(address: &str) -> String {
    match address.parse() {
        Ok(IpAddr::V6(it)) => {
            let site = it.to_bits() >> SITE_BITS << SITE_BITS;
            format!("{}/{SITE_BITS}", std::net::Ipv6Addr::from_bits(site))
        }
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_as_rules_count_them() {
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(site_of(address), expected);
        }
    }
}
