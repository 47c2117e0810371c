//! Converts a gRPC check to the check of the HTTP API.

use std::borrow::Borrow;

use tollgate::Policy;
use tollgate_api::{CheckRequest as HttpCheck, Identifiers, KeyType, Object, Text};

use super::definitions::tollgate::v1::CheckRequest;
use super::wire::{WireCheck, WireIdentifiers, WireTime};
use crate::edge::http::problem::Problem;
use crate::edge::http::wire::check::{CheckBody, CheckSubject};

const INVALID_CHECK: &str = "invalid_check";

/// `None` for an empty text: protocol buffers do not distinguish it from an absent one.
fn text(text: &str) -> Option<Text<'_>> {
    (!text.is_empty()).then(|| Text::from(text))
}

/// A check, and what the check of the HTTP API does not have.
#[derive(Debug)]
pub(super) struct ReadCheck<'a> {
    pub(super) body: CheckBody<'a>,
    /// Whether the response lists every rule that applied.
    pub(super) detail: bool,
    /// The caller's clock.
    pub(super) sent_at: Option<WireTime>,
}

/// Reads a check that the library has decoded.
pub(super) fn body(request: &CheckRequest) -> Result<CheckBody<'_>, Problem> {
    Ok(check(WireCheck::from(request))?.body)
}

/// Reads a check.
pub(super) fn check(request: WireCheck<'_>) -> Result<ReadCheck<'_>, Problem> {
    let refuse = |detail: &str| Problem::unprocessable("invalid_check", detail);
    let (detail, sent_at) = (request.detail, request.timestamp);
    let mut body = HttpCheck {
        rule_id: text(request.rule_id),
        endpoint: text(request.endpoint),
        method: text(request.method),
        host: text(request.host),
        tier: text(request.tier),
        idempotency_key: text(request.idempotency_key),
        attributes: Some(request.attributes).filter(|attributes| !attributes.is_empty()),
        ..HttpCheck::default()
    };
    let mut who = Identifiers::default();
    if let Some(WireIdentifiers { user_id, api_key, ip, tenant }) = request.identifiers {
        who = Identifiers {
            user_id: text(user_id),
            api_key: text(api_key),
            ip: text(ip),
            tenant: text(tenant),
        };
    }
    let key_type = match request.dimension {
        "" | "user" | "user_id" => KeyType::User,
        "api_key" | "apikey" => KeyType::ApiKey,
        "ip" => KeyType::Ip,
        "tenant" => KeyType::Tenant,
        "endpoint" => KeyType::Endpoint,
        "custom" => KeyType::Custom,
        _ => {
            return Err(refuse("dimension: write user, api_key, ip, tenant, endpoint or custom"));
        }
    };
    let key = text(request.identifier);
    if key.is_none() && !request.dimension.is_empty() {
        return Err(refuse("dimension: it says what identifier is, but that is empty"));
    }
    if body.rule_id.is_some() {
        body.request_count = request.cost;
        if key.is_some() {
            (body.key_type, body.key_value) = (Some(key_type), key);
        }
    } else {
        body.cost = request.cost;
        let place = match key_type {
            KeyType::User => &mut who.user_id,
            KeyType::ApiKey => &mut who.api_key,
            KeyType::Ip => &mut who.ip,
            KeyType::Tenant => &mut who.tenant,
            KeyType::Endpoint => &mut body.endpoint,
            KeyType::Custom => {
                return Err(refuse(
                    "dimension: custom is for a check by rule: add rule_id, or use attributes",
                ));
            }
        };
        if key.is_some() {
            if place.is_some() {
                return Err(refuse("identifier: the same is given in another field too"));
            }
            *place = key;
        }
    }
    let is_known = who.user_id.is_some() || who.api_key.is_some() || who.ip.is_some();
    if is_known || who.tenant.is_some() {
        body.identifiers = Some(Object(who));
    }
    Ok(ReadCheck { body: CheckBody(body), detail, sent_at })
}

/// The subject of a check. Of a check by rule without any identifier, the problem names the field that is empty: it is not
/// distinguished from an absent one here.
pub(super) fn subject<'b, P: Borrow<Policy>>(
    body: &'b CheckBody<'_>,
    policy: impl FnOnce() -> P,
) -> Result<CheckSubject<'b>, Problem> {
    let names_none =
        body.key_value.is_none() && body.identifiers.is_none() && body.attributes.is_none();
    body.subject(policy).map_err(|problem| {
        if names_none && body.rule_id.is_some() && problem.code() == INVALID_CHECK {
            let detail = "identifier: it is empty, and the rule counts by it";
            return Problem::unprocessable(INVALID_CHECK, detail);
        }
        problem
    })
}

#[cfg(test)]
mod tests {
    use super::super::definitions::tollgate::v1::Identifiers as WireIdentifiers;
    use super::*;
    use tollgate::{Attribute, Attributes as _};

    #[test]
    fn dimension_sets_the_type_of_the_identifier() {
        let check = |dimension: &str, rule_id: &str, attribute: Attribute<'_>| {
            let request = CheckRequest {
                identifier: "v".to_owned(),
                dimension: dimension.to_owned(),
                rule_id: rule_id.to_owned(),
                cost: Some(3),
                ..CheckRequest::default()
            };
            let body = body(&request).unwrap_or_else(|problem| panic!("{}", problem.detail()));
            assert_eq!(body.get(attribute), Some("v"), "{dimension} {rule_id}");
            assert_eq!(body.cost(), 3);
        };
        for rule_id in ["", "rule"] {
            check("", rule_id, Attribute::UserId);
            check("user", rule_id, Attribute::UserId);
            check("api_key", rule_id, Attribute::ApiKey);
            check("ip", rule_id, Attribute::Ip);
            check("tenant", rule_id, Attribute::Tenant);
            check("endpoint", rule_id, Attribute::Path);
        }
        check("custom", "rule", Attribute::Custom("plan"));
    }

    #[test]
    fn fields_that_do_not_belong_together_are_refused() {
        let check = |request: CheckRequest, expected: &str| {
            let problem = body(&request).expect_err(expected);
            assert!(problem.detail().contains(expected), "{}", problem.detail());
        };
        let request = |identifier: &str, dimension: &str| CheckRequest {
            identifier: identifier.to_owned(),
            dimension: dimension.to_owned(),
            ..CheckRequest::default()
        };
        check(request("v", "banana"), "dimension: write user");
        check(request("", "ip"), "that is empty");
        check(request("v", "custom"), "add rule_id");
        let identifiers = WireIdentifiers { user_id: "u".to_owned(), ..Default::default() };
        let both = CheckRequest { identifiers: Some(identifiers), ..request("v", "user") };
        check(both, "in another field too");
    }

    /// It used to be allowed, and nothing was counted.
    #[test]
    fn a_check_by_rule_needs_an_identifier() {
        let policy = "rules:
  - {rule_id: per_user, limit: 1, window: 1s, identifier_type: user_id}
  - {rule_id: all, limit: 1, window: 1s, identifier_type: global}";
        let policy = Policy::from_text(policy).expect("a valid policy");
        let check = |rule_id: &str, identifier: &str, expected: bool| {
            let request = CheckRequest {
                rule_id: rule_id.to_owned(),
                identifier: identifier.to_owned(),
                ..CheckRequest::default()
            };
            let body = body(&request).unwrap_or_else(|problem| panic!("{}", problem.detail()));
            assert_eq!(subject(&body, || &policy).is_ok(), expected, "{rule_id} {identifier}");
        };
        check("per_user", "ann", true);
        check("per_user", "", false);
        check("all", "", true);
    }
}
