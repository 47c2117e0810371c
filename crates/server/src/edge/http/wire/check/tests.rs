//! How checks are read from JSON, and which are refused.

use super::*;
use crate::edge::http::wire::decode::decode;

fn policy() -> Policy {
    Policy::from_text(
        "rules:
         - {rule_id: user, limit: 1, window: 1s, identifier_type: user_id}
         - {rule_id: address, limit: 1, window: 1s, identifier_type: ip}
         - {rule_id: both, limit: 1, window: 1s, identifier_type: [tenant, user_id]}
         - {rule_id: plan, limit: 1, window: 1s, identifier_type: 'attribute:plan'}
         - {rule_id: path, limit: 1, window: 1s, identifier_type: path}
         - {rule_id: all, limit: 1, window: 1s, identifier_type: global}
         - {rule_id: strict, limit: 1, window: 1s, identifier_type: user_id, on_missing: deny}",
    )
    .expect("a valid policy")
}

#[test]
fn the_subject_is_a_rule_or_the_request() {
    let policy = policy();
    let check = |text: &str, expected: Result<&str, &str>| {
        let body: CheckBody<'_> = decode(text.as_bytes()).expect(text);
        let judged = body.subject(|| &policy).map(|subject| match subject {
            CheckSubject::Rule(rule) => rule.to_owned(),
            CheckSubject::Request => "request".to_owned(),
        });
        match (judged, expected) {
            (Ok(judged), Ok(expected)) => assert_eq!(judged, expected, "{text}"),
            (Err(problem), Err(part)) => {
                assert!(problem.detail().contains(part), "{text}: {}", problem.detail());
            }
            (judged, _) => panic!("{text}: {judged:?}"),
        }
    };
    check("{}", Ok("request"));
    check(r#"{"identifiers":{"user_id":"u"},"endpoint":"/","cost":3}"#, Ok("request"));
    check(r#"{"rule_id":"user","key_type":"user","key_value":"u"}"#, Ok("user"));
    check(
        r#"{"rule_id":"user","key_type":"user_id","key_value":"u","request_count":0}"#,
        Ok("user"),
    );
    check(r#"{"rule_id":"both","identifiers":{"user_id":"u","tenant":"t"}}"#, Ok("both"));
    check(r#"{"rule_id":"plan","key_type":"custom","key_value":"u"}"#, Ok("plan"));
    check(r#"{"rule_id":"nope","key_type":"user","key_value":"u"}"#, Err("no rule `nope`"));
    check(
        r#"{"rule_id":"both","key_type":"user","key_value":"u"}"#,
        Err("counts by tenant, user_id"),
    );
    check(r#"{"rule_id":"user","key_type":"ip","key_value":"u"}"#, Err("use key_type `user`"));
    check(r#"{"rule_id":"address","key_type":"user","key_value":"u"}"#, Err("use key_type `ip`"));
    check(r#"{"rule_id":"user","key_type":"user"}"#, Err("go together"));
    check(r#"{"key_type":"user","key_value":"u"}"#, Err("add rule_id"));
    check(r#"{"rule_id":"user","cost":1,"request_count":1}"#, Err("give one of them"));
    // These were allowed, and nothing was counted.
    check(
        r#"{"rule_id":"user"}"#,
        Err("rule `user` counts by user_id, which this check does not have"),
    );
    check(r#"{"rule_id":"user","identifiers":{"ip":"::1"}}"#, Err("counts by user_id"));
    check(r#"{"rule_id":"both","identifiers":{"tenant":"t"}}"#, Err("counts by user_id"));
    check(r#"{"rule_id":"address","identifiers":{"user_id":"u"}}"#, Err("counts by ip"));
    check(r#"{"rule_id":"plan","attributes":{"plan":""}}"#, Err("counts by attribute:plan"));
    check(r#"{"rule_id":"path"}"#, Err("counts by path"));
    check(r#"{"rule_id":"path","endpoint":"/a"}"#, Ok("path"));
    check(r#"{"rule_id":"all"}"#, Ok("all"));
    // This rule refuses them.
    check(r#"{"rule_id":"strict"}"#, Ok("strict"));
    let long = format!(r#"{{"endpoint":"/{}"}}"#, "a".repeat(5_000));
    check(&long, Ok("request"));
}

/// It used to be read as a path that no rule matches.
#[test]
fn a_whole_url_as_endpoint_is_read_as_its_path() {
    let text = r#"{"endpoint":"https://api.example/login?next=/","method":"POST"}"#;
    let body: CheckBody<'_> = decode(text.as_bytes()).expect(text);
    assert_eq!(body.get(Attribute::Path), Some("/login?next=/"));
    let text = r#"{"endpoint":"https://h\\login"}"#;
    let body: CheckBody<'_> = decode(text.as_bytes()).expect(text);
    assert_eq!(body.get(Attribute::Path), Some("\\login"), "rules read it as /login");
}

/// An invalid address used to mean no limit, silently.
#[test]
fn empty_identifiers_and_invalid_addresses_are_refused() {
    let policy = policy();
    let check = |text: &str, expected: Result<(), &str>| {
        let body: CheckBody<'_> = decode(text.as_bytes()).expect(text);
        let told = body.subject(|| &policy).map(drop);
        let detail = told.as_ref().map_err(Problem::detail).copied();
        assert_eq!(detail, expected, "{text}");
        if let Err(problem) = told {
            assert_eq!((problem.status().as_u16(), problem.code()), (422, "invalid_check"));
        }
    };
    for address in ["203.0.113.9", "2001:db8::1", "::ffff:203.0.113.9"] {
        check(&format!(r#"{{"identifiers":{{"ip":"{address}"}}}}"#), Ok(()));
        let by_rule = r#""rule_id":"address","key_type":"ip","key_value""#;
        check(&format!(r#"{{{by_rule}:"{address}"}}"#), Ok(()));
    }
    for other in
        ["203.0.113.9:443", "[2001:db8::1]", "localhost", "10.0.0.0/8", "010.1.1.1", " ::1"]
    {
        let told = format!("`{other}` is not an address; write it without port or brackets");
        let expected = format!("identifiers.ip: {told}");
        check(&format!(r#"{{"identifiers":{{"ip":"{other}"}}}}"#), Err(&expected));
        let by_rule = r#""rule_id":"address","key_type":"ip","key_value""#;
        check(&format!(r#"{{{by_rule}:"{other}"}}"#), Err(&format!("key_value: {told}")));
    }
    let long = "\u{e9}".repeat(200);
    let told = format!("`{}` is not an address", "\u{e9}".repeat(100));
    let expected = format!("identifiers.ip: {told}; write it without port or brackets");
    check(&format!(r#"{{"identifiers":{{"ip":"{long}"}}}}"#), Err(&expected));

    for name in ["user_id", "api_key", "ip", "tenant"] {
        let expected = format!("identifiers.{name}: it is empty; leave out what is not known");
        check(&format!(r#"{{"identifiers":{{"{name}":""}}}}"#), Err(&expected));
    }
    check(
        r#"{"rule_id":"user","key_type":"user","key_value":""}"#,
        Err("key_value: it is empty; leave out what is not known"),
    );
    // Other fields may be empty, and only `ip` has to be an address.
    check(r#"{"endpoint":"","method":"","host":"","tier":"","attributes":{"a":""}}"#, Ok(()));
    check(r#"{"identifiers":{"user_id":"203.0.113.9:443","api_key":"[::1]"}}"#, Ok(()));
}

#[test]
fn key_value_is_the_value_of_the_identifier_of_the_rule() {
    let check = |text: &str, attribute: Attribute<'_>, expected: Option<&str>| {
        let body: CheckBody<'_> = decode(text.as_bytes()).expect(text);
        assert_eq!(body.get(attribute), expected, "{text} {attribute:?}");
    };
    let user = r#"{"rule_id":"r","key_type":"user","key_value":"v"}"#;
    check(user, Attribute::UserId, Some("v"));
    check(user, Attribute::ApiKey, None);
    check(user, Attribute::Custom("x"), None);
    let custom = r#"{"rule_id":"r","key_type":"custom","key_value":"v"}"#;
    check(custom, Attribute::Custom("anything"), Some("v"));
    check(custom, Attribute::Header("x"), Some("v"));
    check(custom, Attribute::Path, Some("v"));
    let attributes = r#"{"attributes":{"plan":"p","header:x-a":"h","claim:c":"d"}}"#;
    check(attributes, Attribute::Custom("plan"), Some("p"));
    check(attributes, Attribute::Header("x-a"), Some("h"));
    check(attributes, Attribute::Claim("c"), Some("d"));
    check(attributes, Attribute::Claim("plan"), None);
}

#[test]
fn an_invalid_body_is_refused_with_the_position() {
    let check = |text: &str, expected: &str| {
        let problem = decode::<CheckBody<'_>>(text.as_bytes()).expect_err(text);
        assert!(problem.detail().contains(expected), "{text}: {}", problem.detail());
        assert_eq!(problem.status(), http::StatusCode::BAD_REQUEST);
    };
    check("", "empty");
    check("{", "EOF");
    check("[]", "invalid type: sequence, expected an object");
    check(r#"{"identifiers":["u1"]}"#, "identifiers: invalid type: sequence, expected an object");
    check("{} x", "trailing characters");
    check(r#"{"cost":-1}"#, "cost: invalid value: integer `-1`, expected a whole number from 0 at");
    check(r#"{"cost":1e3}"#, "cost: invalid type");
    check(r#"{"identifiers":{"usr":"x"}}"#, "identifiers.usr: unknown field `usr`");
    check(r#"{"identifiers":{"user_id":7}}"#, "identifiers.user_id: invalid type: integer `7`");
    check(r#"{"key_type":"banana"}"#, "key_type: unknown variant `banana`, expected one of `user`");
    check("{\"endpoint\":\"\u{0}\"}", "control character");
}
