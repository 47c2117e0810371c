//! The request of a call to the check API, from the arguments of a command.

use tollgate::identity::Secret;
use tollgate_api::{CheckRequest, Identifiers, Object, Text};

use crate::arguments::{CheckArguments, RequestArguments, TargetArguments};

/// A check by request.
pub(super) fn by_request(arguments: &RequestArguments) -> CheckRequest<'_> {
    let identifiers = Identifiers {
        user_id: text(&arguments.user_id),
        api_key: arguments.api_key.as_ref().map(Secret::expose).map(Text::from),
        ip: text(&arguments.ip),
        tenant: text(&arguments.tenant),
    };
    let attributes = arguments.attributes.iter();
    let attributes = attributes.map(|(name, value)| (Text::from(&**name), Text::from(&**value)));
    CheckRequest {
        identifiers: (identifiers != Identifiers::default()).then_some(Object(identifiers)),
        endpoint: text(&arguments.endpoint),
        method: text(&arguments.method),
        host: text(&arguments.host),
        tier: text(&arguments.tier),
        attributes: (!arguments.attributes.is_empty()).then(|| attributes.collect()),
        cost: arguments.cost,
        ..CheckRequest::default()
    }
}

/// A check by request or by rule.
pub(super) fn by_target(arguments: &TargetArguments) -> CheckRequest<'_> {
    CheckRequest {
        rule_id: text(&arguments.rule),
        key_type: arguments.key_value.is_some().then_some(arguments.key_type),
        key_value: text(&arguments.key_value),
        ..by_request(&arguments.request)
    }
}

/// What `tollgate check` sends.
pub(super) fn check(arguments: &CheckArguments) -> CheckRequest<'_> {
    let idempotency_key = text(&arguments.idempotency_key);
    CheckRequest { idempotency_key, ..by_target(&arguments.target) }
}

fn text(text: &Option<String>) -> Option<Text<'_>> {
    text.as_deref().map(Text::from)
}
