//! The example check that a server prints when it has started.

use serde_json::{Value, json};
use tollgate::rules::Identifier;
use tollgate_import::envoy::FileLimit;

/// The body of a check with these identifiers; with an address if none of them identifies a client.
pub(crate) fn check_of(identifiers: &[Identifier]) -> String {
    let (mut who, mut attributes) = (Vec::new(), Vec::new());
    for identifier in identifiers {
        let name = identifier.to_string();
        match identifier {
            Identifier::UserId => who.push((name, "alice")),
            Identifier::ApiKey => who.push((name, "key-1")),
            Identifier::Ip => who.push((name, ADDRESS)),
            Identifier::Tenant => who.push((name, "acme")),
            Identifier::Header(_) | Identifier::Claim(_) => attributes.push((name, "example")),
            Identifier::Attribute(name) => attributes.push((name.to_string(), "example")),
            Identifier::Endpoint | Identifier::Path | Identifier::Global => {}
        }
    }
    if who.is_empty() && attributes.is_empty() {
        who.push(("ip".to_owned(), ADDRESS));
    }
    let mut check = String::new();
    for (name, fields) in [("identifiers", who), ("attributes", attributes)] {
        if !fields.is_empty() {
            check += &format!("\"{name}\":{},", object(&fields));
        }
    }
    let check = format!("{{{check}\"endpoint\":\"/orders\",\"method\":\"GET\"}}");
    // A shell gets it in single quotes, and names may contain some.
    check.replace('\'', r"'\''")
}

/// A call of Envoy that this limit counts.
pub(crate) fn call_of_envoy(limit: &FileLimit) -> String {
    let entries = limit.path.iter().map(|step| {
        // A wildcard stands for any text.
        let value = step.value.as_deref().unwrap_or("example").replace('*', "1");
        json!({ "key": step.key, "value": value })
    });
    let entries: Vec<Value> = entries.collect();
    let call = json!({ "domain": limit.domain, "descriptors": [{ "entries": entries }] });
    call.to_string().replace('\'', r"'\''")
}

/// An address that is reserved for documentation.
const ADDRESS: &str = "203.0.113.9";

/// A JSON object with these fields, in their order.
fn object(fields: &[(String, &str)]) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{}", text(name), text(value))).collect();
    format!("{{{}}}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::Policy;
    use tollgate_import::envoy::EnvoyConfig;

    #[test]
    fn the_example_has_the_identifiers_of_the_rule() {
        let check = |identifiers: &str, expected: &str| {
            let policy = format!(
                "rules: [{{rule_id: r, limit: 1, window: 1s, identifier_type: {identifiers}}}]"
            );
            let policy = Policy::from_text(&policy).expect("a valid policy");
            let rule = policy.rules().find("r").expect("the rule");
            let expected = format!("{{{expected},\"endpoint\":\"/orders\",\"method\":\"GET\"}}");
            assert_eq!(check_of(&rule.identifiers), expected, "{identifiers}");
        };
        check("ip", r#""identifiers":{"ip":"203.0.113.9"}"#);
        check("user_id", r#""identifiers":{"user_id":"alice"}"#);
        check("[tenant, api_key]", r#""identifiers":{"tenant":"acme","api_key":"key-1"}"#);
        check("'header:X-Plan'", r#""attributes":{"header:x-plan":"example"}"#);
        check(
            "[user_id, 'attribute:plan', endpoint]",
            r#""identifiers":{"user_id":"alice"},"attributes":{"plan":"example"}"#,
        );
        check("global", r#""identifiers":{"ip":"203.0.113.9"}"#);
        check("\"claim:it's\"", r#""attributes":{"claim:it'\''s":"example"}"#);
    }

    #[test]
    fn the_example_for_envoy_meets_the_limit() {
        let file = "
domain: it's
descriptors:
  - key: path
    value: /login*
    descriptors: [{key: ip, rate_limit: {unit: day, requests_per_unit: 1}}]
";
        let config = EnvoyConfig::parse(&[("file", file)]).expect("a valid file");
        let call = call_of_envoy(&config.limits()[0]);
        assert_eq!(
            call,
            r#"{"descriptors":[{"entries":[{"key":"path","value":"/login1"},{"key":"ip","value":"example"}]}],"domain":"it'\''s"}"#
        );
    }
}
