//! Rules that protect less than their author counts on.

use tollgate_core::Mode;

use super::{LintView, Suspect};
use crate::compile::flaw::Flaw;
use crate::document::{Consistency, ListDocument, OnStoreFailure};
use crate::identifier::Identifier;
use crate::matching::network::Network;

/// The factor of rules that do not name one.
const DEFAULT_FACTOR: u32 = 2;

/// Counting by address where no proxy is trusted to report it.
pub(super) fn address_of_a_proxy(view: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let is_known_to_be_unset = view.context.trusted_proxies == Some(false);
    if !is_known_to_be_unset || !suspect.rule.identifiers.contains(&Identifier::Ip) {
        return None;
    }
    let message = "no trusted proxies are set: behind a proxy, all clients share its address";
    let advice = "name the proxies in front of Tollgate as trusted, or count by user_id or api_key";
    Some(Flaw::new(message, advice).within("identifier_type"))
}

/// Something like a login that lets everyone try while the store is away.
pub(super) fn open_login(_: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    if rule.on_store_failure != OnStoreFailure::Open || rule.consistency == Consistency::Local {
        return None;
    }
    let endpoints = rule.conditions.endpoints.iter().map(|pattern| &*pattern.text);
    let word = endpoints.chain([&*rule.id]).find_map(credential_word)?;
    Some(
        Flaw::new(
            format!("while the store is away, nothing limits guessing (`{word}`)"),
            "use on_store_failure: local, which keeps counting on each node, or closed",
        )
        .within("on_store_failure"),
    )
}

/// A penalty that bans no client, or all of them.
pub(super) fn misdirected_penalty(_: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    rule.penalty.as_ref()?;
    let (message, advice) = if rule.mode == Mode::Shadow {
        ("a rule that only watches bans no client", "remove the penalty, or write action: reject")
    } else if rule.identifiers.iter().any(Identifier::names_client) {
        return None;
    } else {
        (
            "all clients share the counter, so all of them are banned together",
            "count by what sets clients apart: user_id, api_key or ip",
        )
    };
    Some(Flaw::new(message, advice).within("penalty"))
}

/// A word that speaks of credentials. Short ones must stand alone: `/authors` is no login.
fn credential_word(text: &str) -> Option<&str> {
    const ANYWHERE: [&str; 4] = ["login", "signin", "password", "2fa"];
    const ALONE: [&str; 9] =
        ["auth", "oauth", "oauth2", "authenticate", "token", "tokens", "otp", "reset", "logon"];
    let is_word = |word: &&str| {
        let word = word.to_ascii_lowercase();
        ALONE.contains(&word.as_str()) || ANYWHERE.iter().any(|part| word.contains(part))
    };
    let sign_in = text.find("sign-in").or_else(|| text.find("sign_in"));
    sign_in
        .map(|at| &text[at..at + "sign-in".len()])
        .or_else(|| text.split(|c: char| !c.is_ascii_alphanumeric()).find(is_word))
}

/// A ban on one address, where the client has a whole network to choose from.
pub(super) fn one_address_of_many(document: &ListDocument) -> Option<Flaw> {
    let ([kind], [text]) = (&*document.identifier_type, &*document.identifier) else { return None };
    let network = Network::parse(text).ok().filter(|_| kind == "ip")?;
    let site = network.site().filter(|site| site.prefix() < network.prefix())?;
    Some(
        Flaw::new(
            format!("an IPv6 client has all of {site} and can leave this address any time"),
            format!("list {site}"),
        )
        .within("identifier"),
    )
}

/// What all nodes admit together when each of them counts alone.
pub(super) fn fleet_of_fallbacks(view: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    let falls_back = rule.consistency == Consistency::Strict
        && rule.on_store_failure == OnStoreFailure::Local
        && rule.quota.limit > 0;
    let (limit, factor) = (rule.quota.limit, rule.fallback_factor);
    let message = match view.context.nodes {
        _ if !falls_back => return None,
        Some(0 | 1) => return None,
        Some(nodes) => {
            let together = u128::from(nodes) * u128::from(factor) * u128::from(limit);
            format!(
                "while the store is away, {nodes} nodes x {factor} x {limit} = {together} are \
                 admitted per window"
            )
        }
        None if factor > DEFAULT_FACTOR && view.context.redis => {
            format!("while the store is away, N nodes admit N x {factor} x {limit} per window")
        }
        None => return None,
    };
    let advice = "lower fallback_factor, or use on_store_failure: closed where that is too much";
    Some(Flaw::new(message, advice).within("fallback_factor"))
}
