//! What is called by several names is one entry.

use serde_json::{Value as Json, json};
use tollgate_catalog::{Filter, Kind};

use crate::desk::{TestCatalog, contents, only, put};
use crate::place::everywhere;

#[tokio::test(flavor = "multi_thread")]
async fn the_same_client_in_two_ways_is_one_entry() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let rule = crate::desk::rule("api", &json!({"identifier_type": ["tenant", "user_id"]}));
        desk.write(vec![put(Kind::Rule, &rule)]).await;
        let check =
            async |kind: Kind, (types, values): (Json, Json), same: (Json, Json), name: &str| {
                let body = |(types, values): (Json, Json)| {
                    let mut body = json!({"identifier_type": types, "identifier": values});
                    match kind {
                        Kind::Client => body["tier"] = json!("gold"),
                        Kind::Override => {
                            body["rule_id"] = json!("api");
                            body["limit"] = json!(7);
                        }
                        _ => body["reason"] = json!("why not"),
                    }
                    body
                };
                let before = contents(&desk.catalog).await.len();
                desk.check(only(put(kind, &body((types, values)))), &format!("+{kind} {name}"))
                    .await;
                desk.check(only(put(kind, &body(same))), &format!("~{kind} {name}")).await;
                assert_eq!(contents(&desk.catalog).await.len(), before + 1);
            };
        let pair = (json!(["tenant", "user_id"]), json!(["acme", "u1"]));
        let turned = (json!(["user_id", "tenant"]), json!(["u1", "acme"]));
        let named = r#"["user_id","u1","tenant","acme"]"#;
        for kind in [Kind::Client, Kind::Whitelist, Kind::Blacklist] {
            check(kind, pair.clone(), turned.clone(), named).await;
        }
        let exception = r#"["api","user_id","u1","tenant","acme"]"#;
        check(Kind::Override, pair, turned, exception).await;

        let ip = |text: &str| (json!("ip"), json!(text));
        let long = "2001:0DB8:0000:0000:0000:0000:0000:0001";
        // As a client, it is its whole site.
        let site = r#"["ip","2001:db8::/64"]"#;
        check(Kind::Client, ip("2001:db8::1"), ip(long), site).await;
        let address = r#"["ip","2001:db8::1"]"#;
        check(Kind::Blacklist, ip("2001:db8::1"), ip(long), address).await;
        let network = r#"["ip","2001:db8::/32"]"#;
        check(Kind::Whitelist, ip("2001:db8::/32"), ip("2001:0db8:0::/32"), network).await;
        let mapped = r#"["ip","192.0.2.1"]"#;
        check(Kind::Client, ip("192.0.2.1"), ip("::ffff:192.0.2.1"), mapped).await;

        let header = (json!("header:X-Team"), json!("red"));
        let lower = (json!("header:x-team"), json!("red"));
        check(Kind::Client, header, lower, r#"["header:x-team","red"]"#).await;
        let listed = (json!("user_id"), json!("u2"));
        let in_lists = (json!(["user_id"]), json!(["u2"]));
        // Even the text of these two is the same.
        desk.check(only(put(Kind::Blacklist, &list(listed))), r#"+blacklist ["user_id","u2"]"#)
            .await;
        desk.check(only(put(Kind::Blacklist, &list(in_lists))), "nothing").await;
    })
    .await;
}

fn list((types, values): (Json, Json)) -> Json {
    json!({"identifier_type": types, "identifier": values})
}

/// Names and values can be anything that people call others.
#[tokio::test(flavor = "multi_thread")]
async fn odd_values_are_kept_as_they_are() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        for value in ["'; DROP TABLE tollgate_rules; --", "$1", "\u{1f600}", "a\tb\"c\\", "%_", " "]
        {
            let body = json!({"identifier_type": "user_id", "identifier": value});
            desk.write(vec![put(Kind::Blacklist, &body)]).await;
            let filter = Filter { identifier: Some(value.to_owned()), ..Filter::default() };
            let page = desk.catalog.page(Kind::Blacklist, &filter, None, 9).await.expect("a page");
            assert_eq!(page.entries.len(), 1, "{value}");
        }
    })
    .await;
}

/// Values that a database cannot keep are refused by both in the same way, and not as unreachable.
#[tokio::test(flavor = "multi_thread")]
async fn values_that_cannot_be_kept_are_refused() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let check = async |kind: Kind, body: Json| {
            desk.check(only(put(kind, &body)), "invalid: ..").await;
        };
        let zero = "a\0b";
        check(Kind::Blacklist, list((json!("user_id"), json!(zero)))).await;
        check(Kind::Rule, crate::desk::rule("api", &json!({"tenant": zero}))).await;
        check(Kind::Tier, json!({"tier": zero})).await;
        let client = json!({"identifier_type": "user_id", "identifier": "u1", "tier": zero});
        check(Kind::Client, client).await;
        let reason = json!({"identifier_type": "ip", "identifier": "192.0.2.1", "reason": zero});
        check(Kind::Whitelist, reason).await;
        // Six times the longest value that a client can have, of characters that do not compress.
        let noise = |seed: u32| -> String {
            let mut state = seed;
            let next = std::iter::repeat_with(move || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from_digit(state >> 27, 36).unwrap_or('z')
            });
            next.take(1024).collect()
        };
        let types = ["user_id", "tenant", "api_key", "claim:a", "claim:b", "claim:c"];
        let values: Vec<String> = (0..6).map(noise).collect();
        desk.check(
            only(put(Kind::Blacklist, &list((json!(types), json!(values))))),
            "invalid: the name of the blacklist takes ..",
        )
        .await;
    })
    .await;
}
