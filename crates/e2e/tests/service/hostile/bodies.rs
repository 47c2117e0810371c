//! Bodies that are invalid for every call.

use super::random::Random;

/// The valid body that is damaged, or sent with a wrong type or encoding.
pub(super) const VALID: &str =
    r#"{"identifiers":{"user_id":"u","ip":"203.0.113.9"},"endpoint":"/a","method":"GET","cost":2}"#;

const OTHERS: &[&str] = &[
    r#"{"rule_id":"per_user","key_type":"user","key_value":"u","request_count":1,"detail":false}"#,
    r#"{"checks":[{"identifiers":{"user_id":"u"}},{"rule_id":"per_user","key_type":"user","key_value":"u"}]}"#,
    r#"{"decision_id":"d00000000-a1"}"#,
    r#"{"attributes":{"plan":"pro","header:x-a":"b"},"tier":"free","host":"a.example","idempotency_key":"k"}"#,
];

pub(super) const CONTENT_TYPES: &[&str] = &[
    "text/plain",
    "text/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
    "application/",
    "json",
    "",
    "*/*",
    "application/xml, application/json",
];

/// Each is wrong for every call.
pub(super) fn hand_made() -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> = [
        "",
        " ",
        "null",
        "true",
        "0",
        "-",
        "\"text\"",
        "[]",
        "[{}]",
        "{",
        "}",
        "{]",
        "{\"",
        "{\"cost\"",
        "{\"cost\":",
        "{\"cost\":1",
        "{\"cost\":1,}",
        "{'cost':1}",
        "{cost:1}",
        "{} {}",
        "{}x",
        "{\"cost\":1}\u{0}",
        "\u{feff}{}",
        "NaN",
        "{\"cost\":NaN}",
        "{\"cost\":Infinity}",
        "{\"cost\":01}",
        "{\"cost\":+1}",
        "{\"cost\":1.}",
        "{\"cost\":0x10}",
        "{\"cost\":-1}",
        "{\"cost\":1.5}",
        "{\"cost\":1e400}",
        "{\"cost\":18446744073709551616}",
        "{\"cost\":\"1\"}",
        "{\"cost\":[1]}",
        "{\"cost\":true}",
        "{\"request_count\":-9223372036854775809}",
        "{\"cost\":1,\"cost\":2}",
        "{\"identifiers\":{\"ip\":\"a\",\"ip\":\"b\"}}",
        "{\"identifiers\":[]}",
        "{\"identifiers\":\"u\"}",
        "{\"identifiers\":{\"user_id\":1}}",
        "{\"identifiers\":{\"user_id\":{}}}",
        "{\"identifiers\":{\"unknown\":\"u\"}}",
        "{\"endpoint\":1}",
        "{\"endpoint\":\"\\ud800\"}",
        "{\"endpoint\":\"\\x\"}",
        "{\"endpoint\":\"\u{1}\"}",
        "{\"endpoint\":\"\n\"}",
        "{\"method\":[\"GET\"]}",
        "{\"attributes\":[]}",
        "{\"attributes\":{\"a\":1}}",
        "{\"attributes\":{\"a\":{\"b\":\"c\"}}}",
        "{\"detail\":\"yes\"}",
        "{\"tier\":0}",
        "{\"key_type\":\"banana\",\"rule_id\":\"per_user\",\"key_value\":\"u\"}",
        "{\"key_type\":\"user\",\"key_value\":\"u\"}",
        "{\"rule_id\":\"per_user\",\"key_type\":\"ip\",\"key_value\":\"u\"}",
        "{\"rule_id\":\"per_user\",\"key_type\":\"user\"}",
        "{\"rule_id\":\"no such rule\"}",
        "{\"rule_id\":7}",
        "{\"request_count\":1}",
        "{\"unknown\":1}",
        "{\"__proto__\":{}}",
        "{\"decision_id\":1}",
        "{\"decision_id\":\"\"}",
        "{\"decision_id\":\"d00000000-a1\",\"more\":1}",
        "{\"checks\":1}",
        "{\"checks\":{}}",
        "{\"checks\":[]}",
        "{\"checks\":[1]}",
        "{\"checks\":[[]]}",
        "{\"checks\":[null]}",
        "{\"checks\":[{\"cost\":-1}]}",
        "<check/>",
        "cost=1",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    bodies.push(b"{\"endpoint\":\"\xff\xfe\"}".to_vec());
    bodies.push(b"\xff\xfe{\x00}\x00".to_vec());
    bodies.push(b"\x1f\x8b\x08\x00\x00\x00\x00\x00".to_vec());
    bodies.push(vec![0; 1_000]);
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(50_000), close.repeat(50_000));
    let text = |length: usize| "x".repeat(length);
    let many = |count: usize, one: &str| vec![one; count].join(",");
    let attributes: Vec<_> = (0..65).map(|number| format!("\"a{number}\":\"b\"")).collect();
    for body in [
        deep("[", "]"),
        deep("{\"identifiers\":", "}"),
        format!("{{\"checks\":{}}}", deep("[", "]")),
        "[".repeat(1_000_000),
        format!("{{\"cost\":{}}}", "9".repeat(100_000)),
        format!("{{\"{}\":1}}", text(500_000)),
        format!("{{\"attributes\":{{{}}}}}", attributes.join(",")),
        format!("{{\"checks\":[{}]}}", many(1_001, "{}")),
        format!("{{\"checks\":[{}]}}", many(300_000, "{}")),
        format!("{{\"rule_id\":\"{}\"}}", text(100_000)),
        format!("{{\"decision_id\":\"{}\"}}", text(100_000)),
        many(100_000, "{}"),
    ] {
        bodies.push(body.into_bytes());
    }
    bodies
}

/// A valid body with random damage.
pub(super) fn damaged(random: &mut Random) -> Vec<u8> {
    let texts: Vec<&str> = [VALID].iter().chain(OTHERS).copied().collect();
    let mut body = random.pick(&texts).as_bytes().to_vec();
    random.damage(&mut body);
    body
}
