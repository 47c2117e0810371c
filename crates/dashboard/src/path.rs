//! The addresses of all pages and forms. The server mounts its routes here, and pages link only by these functions.
//!
//! Every form posts `csrf`, and `next`: the page to show afterwards (303), with what the form did as a notice. A form
//! whose input is wrong gets its own page back, with what was typed and what would be right.

use std::net::IpAddr;

use crate::model::{ClientRef, Identifier, Range, RangeChoice, TryForm};

/// Ends the ids of candidates. No rule has such an id.
pub const CANDIDATE: &str = "~candidate";
/// The first page.
pub const OVERVIEW: &str = "/";
/// Where a token is entered. The form posts `token`, `next`, `csrf` to the same address.
pub const SIGN_IN: &str = "/ui/sign-in";
/// Ends the session (POST).
pub const SIGN_OUT: &str = "/ui/sign-out";
/// The list of rules: `?q=&state=&order=&after=`.
pub const RULES: &str = "/ui/rules";
/// A new rule: the page, and the address that its form posts to (as [`rule`]).
pub const NEW_RULE: &str = "/ui/new-rule";
/// The search for clients: `?q=&type=`.
pub const CLIENTS: &str = "/ui/clients";
/// One client: `?type=user_id&value=u1&type=tenant&value=acme&endpoint=&method=`, pairs in order.
pub const CLIENT: &str = "/ui/client";
/// Makes an override (POST): pairs of `type` and `value`, `rule_id`, one of `limit`, `multiplier`, `burst`; `minutes`
/// until it ends, empty for never.
pub const CLIENT_OVERRIDE: &str = "/ui/client/override";
/// Puts a client on the deny list (POST): pairs, `reason`, `minutes`, empty for never.
pub const CLIENT_BAN: &str = "/ui/client/ban";
/// Puts a client into a tier (POST): pairs, `tier`; an empty one takes it out.
pub const CLIENT_TIER: &str = "/ui/client/tier";
/// Resets the counters of a client (POST): pairs, `rule_id`, empty for all rules.
pub const CLIENT_RESET: &str = "/ui/client/reset";
/// Top lists and the tail of decisions: `?window=&client=&rule_id=&endpoint=&outcome=`.
pub const LIVE: &str = "/ui/live";
/// Explains a request: the fields of [`TryForm`] in the query. A POST of the same fields checks and charges.
pub const TRY: &str = "/ui/try";
/// Replays a log: the form posts multipart data `log`, `format`, `policy`, `document` to the same address.
pub const SIMULATE: &str = "/ui/simulate";
/// Changes and refusals: `?log=` and the fields of `AuditFilter`, `before`.
pub const AUDIT: &str = "/ui/audit";
/// Bans and lists: `?list=&q=&after=`.
pub const LISTS: &str = "/ui/lists";
/// Adds an entry (POST): `list` (`blacklist` or `whitelist`), pairs, `reason`, `minutes`, empty for never.
pub const LIST_ADD: &str = "/ui/lists/add";
/// Removes an entry (POST): `list` (`blacklist`, `whitelist` or `overrides`), pairs, for overrides `rule_id`.
pub const LIST_REMOVE: &str = "/ui/lists/remove";
/// Lifts a ban (POST): `rule_id`, `identifier` once for each identifier of the rule.
pub const BAN_LIFT: &str = "/ui/bans/lift";
/// API keys and tokens. Creation answers with this page and the secret, not with a redirect.
pub const KEYS: &str = "/ui/keys";
/// Creates an API key (POST): `name`, `owner`, `tier`, `tenant`.
pub const KEY_CREATE: &str = "/ui/keys/create";
/// Removes an API key (POST): `key_id`.
pub const KEY_REMOVE: &str = "/ui/keys/remove";
/// Creates a token (POST): `name`, `role`, `tenant`, `days`, empty for never.
pub const TOKEN_CREATE: &str = "/ui/tokens/create";
/// Revokes a token (POST): `token_id`.
pub const TOKEN_REVOKE: &str = "/ui/tokens/revoke";
/// Stores, catalog, nodes.
pub const HEALTH: &str = "/ui/health";
/// The prefix of decisions: [`decision`] adds the id.
pub const DECISIONS: &str = "/ui/decisions/";
/// Returns the charge of a decision (POST): `decision_id`.
pub const REFUND: &str = "/ui/refund";
/// The stream of fragments (`text/event-stream`) for a page: `?page=PATH-AND-QUERY` of that page.
pub const EVENTS: &str = "/ui/events";

/// One rule: the page (`?edit=yaml` for the text), and the address that its form posts to. The form posts `mode`
/// (`form` or `yaml`), `yaml`, `version`, in mode `form` the fields of `RuleForm`, and by its button `do`: `preview`
/// (lint, difference, effect), `save`, `as_form`, `as_yaml`. A candidate is on the page of its rule.
#[must_use]
pub fn rule(rule_id: &str) -> String {
    let written = rule_id.strip_suffix(CANDIDATE).unwrap_or(rule_id);
    format!("{RULES}/{}", segment(written))
}

/// What the candidate of a rule would have done, on the page of the rule.
#[must_use]
pub fn rule_candidate(rule_id: &str) -> String {
    format!("{}#candidate", rule(rule_id))
}

/// Puts the candidate of a rule in force (POST): `version`.
#[must_use]
pub fn rule_promote(rule_id: &str) -> String {
    format!("{}/promote", rule(rule_id))
}

/// Enforces, shadows or disables a rule (POST): `state` as a word of `RuleState`, `version`.
#[must_use]
pub fn rule_state(rule_id: &str) -> String {
    format!("{}/state", rule(rule_id))
}

/// Deletes a rule (POST): `version`.
#[must_use]
pub fn rule_delete(rule_id: &str) -> String {
    format!("{}/delete", rule(rule_id))
}

/// Restores a rule as it was after a revision (POST): `revision`.
#[must_use]
pub fn rule_rollback(rule_id: &str) -> String {
    format!("{}/rollback", rule(rule_id))
}

/// The explanation of a decision.
#[must_use]
pub fn decision(decision_id: &str) -> String {
    format!("{DECISIONS}{}", segment(decision_id))
}

/// The page of a client; the search, if the name does not say what kind of client it is.
#[must_use]
pub fn client(client: &ClientRef) -> String {
    match &*client.identifiers {
        [] if client.name.starts_with("sha256:") => one("api_key", &client.name),
        [] if client.name.parse::<IpAddr>().is_ok() => one("ip", &client.name),
        [] => client_search(&client.name),
        identifiers => client_by(identifiers),
    }
}

/// The search for clients.
#[must_use]
pub fn client_search(text: &str) -> String {
    with_query(CLIENTS, &[("q", text)])
}

fn one(identifier_type: &str, value: &str) -> String {
    with_query(CLIENT, &[("type", identifier_type), ("value", value)])
}

/// The page of the client with these identifiers.
#[must_use]
pub fn client_by(identifiers: &[Identifier]) -> String {
    let pairs: Vec<(&str, &str)> = identifiers
        .iter()
        .flat_map(|it| [("type", it.identifier_type.as_str()), ("value", it.value.as_str())])
        .collect();
    with_query(CLIENT, &pairs)
}

/// The page that explains a request.
#[must_use]
pub fn try_request(form: &TryForm) -> String {
    with_query(TRY, &try_fields(form))
}

/// The fields of a request that are known, as they stand in queries.
#[must_use]
pub fn try_fields(form: &TryForm) -> Vec<(&'static str, &str)> {
    let fields = [
        ("method", form.method.as_str()),
        ("endpoint", &form.endpoint),
        ("host", &form.host),
        ("user_id", &form.user_id),
        ("api_key", &form.api_key),
        ("ip", &form.ip),
        ("tenant", &form.tenant),
        ("tier", &form.tier),
        ("cost", &form.cost),
        ("attributes", &form.attributes),
    ];
    fields.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// The parameters of a range of time.
#[must_use]
pub fn range_query(range: &Range) -> String {
    match range.choice {
        RangeChoice::Custom => {
            format!("from={}&until={}", range.from.as_secs(), range.until.as_secs())
        }
        choice => format!("range={}", choice.word()),
    }
}

/// A path with parameters; those without a value are left out.
#[must_use]
pub fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut text = path.to_owned();
    for (at, (name, value)) in parameters.iter().filter(|(_, value)| !value.is_empty()).enumerate()
    {
        text.push(if at == 0 { '?' } else { '&' });
        text.push_str(&encoded(name));
        text.push('=');
        text.push_str(&encoded(value));
    }
    text
}

/// A text as one segment of a path. Dots alone are encoded too, or browsers would take them for a way up.
fn segment(text: &str) -> String {
    if text == "." || text == ".." { text.replace('.', "%2E") } else { encoded(text) }
}

/// A text with everything but letters, digits and `-_.~` percent-encoded.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_leave_their_place_in_an_address() {
        assert_eq!(rule("a/../b?c#d"), "/ui/rules/a%2F..%2Fb%3Fc%23d");
        assert_eq!(decision(".."), "/ui/decisions/%2E%2E");
        let hostile = ClientRef::one("header:X", "\"><script>&x=1 ä");
        assert_eq!(
            client(&hostile),
            "/ui/client?type=header%3AX&value=%22%3E%3Cscript%3E%26x%3D1%20%C3%A4"
        );
        let unknown = ClientRef { name: "u 1".to_owned(), identifiers: Vec::new() };
        assert_eq!(client(&unknown), "/ui/clients?q=u%201");
    }

    /// An API key used to lead to a search that offered its digest as a user and as a tenant.
    #[test]
    fn a_name_that_says_what_it_is_leads_to_the_page_of_the_client() {
        let named = |name: &str| ClientRef { name: name.to_owned(), identifiers: Vec::new() };
        let key = "/ui/client?type=api_key&value=sha256%3Ae9982364fd73";
        assert_eq!(client(&named("sha256:e9982364fd73")), key);
        assert_eq!(client(&named("192.0.2.7")), "/ui/client?type=ip&value=192.0.2.7");
    }

    #[test]
    fn empty_fields_are_left_out() {
        let form = TryForm { user_id: "u".to_owned(), cost: "2".to_owned(), ..TryForm::default() };
        assert_eq!(try_request(&form), "/ui/try?user_id=u&cost=2");
        assert_eq!(try_request(&TryForm::default()), "/ui/try");
    }
}
