//! A write that would make the policy invalid is refused, with an error that says what is wrong and where;
//! and nothing is removed that another entry still needs.

use serde_json::{Value as Json, json};
use tollgate_catalog::{Catalog, ChangesSince, Edit, Intent, Kind, PolicyBounds};

use crate::desk::{TestCatalog, apply, only, patch, put, remove, rule};
use crate::place::everywhere;

const BASE: &str = "
    rules:
      - {rule_id: plain, limit: 10, window: 1m, identifier_type: user_id}
      - {rule_id: bucket, limit: 10, window: 1m, identifier_type: user_id, algorithm: token_bucket}
    tiers: [{tier: free, default: true}, {tier: pro}]";

fn exception(rule_id: &str, fields: &Json) -> Json {
    let mut body = json!({"rule_id": rule_id, "identifier_type": "user_id", "identifier": "u1"});
    let fields = fields.as_object().expect("fields").clone();
    body.as_object_mut().expect("an object").extend(fields);
    body
}

fn client(tier: &str) -> Json {
    json!({"identifier_type": "user_id", "identifier": "u1", "tier": tier})
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_entries_are_refused() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        desk.check(apply(BASE, &[]), "+tier pro, +tier free, +rule plain, +rule bucket").await;
        let check = async |kind: Kind, body: Json, expected: &str| {
            desk.check(only(put(kind, &body)), &format!("invalid: {expected}")).await;
        };
        check(Kind::Rule, rule("Bad Id", &json!({})), "rule Bad Id..").await;
        check(Kind::Rule, rule("", &json!({})), "..").await;
        check(Kind::Rule, rule(&"r".repeat(101), &json!({})), "rule_id: a rule_id has..").await;
        check(Kind::Rule, rule("r", &json!({"identifier_type": "shoe_size"})), "rule r..").await;
        check(Kind::Rule, rule("r", &json!({"replaces": ["missing"]})), "rule r..").await;
        check(Kind::Rule, rule("r", &json!({"replaces": ["r"]})), "rule r..").await;
        check(Kind::Rule, rule("r", &json!({"applies_to": {"user_tiers": ["gold"]}})), "rule r..")
            .await;
        check(Kind::Tier, json!({"tier": ""}), "..").await;
        check(Kind::Tier, json!({"tier": "b", "default": true}), "default: free is the..").await;
        check(Kind::Client, client("gold"), "tier: there is no tier `gold`; declared are..").await;
        check(
            Kind::Client,
            json!({"identifier_type": "endpoint", "identifier": "/a", "tier": "pro"}),
            "identifier_type: a tier belongs to a client..",
        )
        .await;
        let two = json!({"limit": 1, "multiplier": 2});
        check(Kind::Override, exception("plain", &two), "multiplier: ..").await;
        check(Kind::Override, exception("plain", &json!({})), "the override changes nothing..")
            .await;
        check(
            Kind::Override,
            exception("gone", &json!({"limit": 1})),
            "rule_id: there is no rule..",
        )
        .await;
        check(Kind::Override, exception("plain", &json!({"burst": 1})), "burst: ..").await;
        let never = json!({"limit": 1, "expires_at": "never"});
        check(Kind::Override, exception("plain", &never), "expires_at: ..").await;
        for kind in [Kind::Whitelist, Kind::Blacklist] {
            let of =
                |types: &str, value: &str| json!({"identifier_type": types, "identifier": value});
            check(kind, of("path", "/a"), "identifier_type: a list names clients..").await;
            check(kind, of("ip", "300.0.0.1"), "identifier: ..").await;
            check(kind, of("user_id", ""), "identifier: ..").await;
            let soon = json!({"identifier_type": "ip", "identifier": "::1", "expires_at": "soon"});
            check(kind, soon, "expires_at: ..").await;
        }
        let token = |more: Json| {
            let mut body = json!({"token_id": "t", "digest": "0".repeat(64), "role": "viewer"});
            body.as_object_mut()
                .expect("an object")
                .extend(more.as_object().expect("more").clone());
            body
        };
        check(Kind::Token, token(json!({"token_id": ""})), "..").await;
        check(Kind::Token, token(json!({"digest": "12"})), "digest: ..").await;
        check(Kind::Token, token(json!({"digest": "x".repeat(64)})), "digest: ..").await;
        check(Kind::Token, token(json!({"tenant": "acme"})), "tenant: ..").await;
        check(Kind::Token, token(json!({"role": "tenant-admin"})), "tenant: ..").await;
        check(Kind::Token, token(json!({"expires_at": "soon"})), "expires_at: ..").await;
        let key = |more: Json| {
            let mut body = json!({"key_id": "k", "digest": "0".repeat(64)});
            body.as_object_mut()
                .expect("an object")
                .extend(more.as_object().expect("more").clone());
            body
        };
        check(Kind::ApiKey, key(json!({"digest": ""})), "digest: ..").await;
        check(Kind::ApiKey, key(json!({"tier": "gold"})), "tier: there is no tier `gold`..").await;
        let ban = json!({"rule_id": "plain", "identifier": ["u1"], "expires_at": "soon"});
        check(Kind::Ban, ban, "expires_at: ..").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_entries_cannot_have_one_secret() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let check = async |kind: Kind, id: &str, more: Json| {
            let body = |name: &str, digit: &str| {
                let mut body = json!({id: name, "digest": digit.repeat(64)});
                body.as_object_mut()
                    .expect("an object")
                    .extend(more.as_object().expect("more").clone());
                put(kind, &body)
            };
            desk.write(vec![body("one", "a"), body("two", "b")]).await;
            let same = format!("invalid: digest: the {kind} one has the same secret..");
            desk.check(only(body("two", "a")), &same).await;
            desk.check(only(body("three", "a")), &same).await;
            // One that goes leaves its secret to others.
            let handed_over = vec![remove(kind, "one"), body("three", "a")];
            let done = format!("-{kind} one, +{kind} three");
            desk.check(Intent::Edits(handed_over), &done).await;
        };
        check(Kind::ApiKey, "key_id", json!({})).await;
        check(Kind::Token, "token_id", json!({"role": "admin"})).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_replace_each_other_are_refused() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let replacing =
            |id: &str, others: &[&str]| put(Kind::Rule, &rule(id, &json!({"replaces": others})));
        let chain = vec![replacing("a", &["b"]), replacing("b", &["c"]), replacing("c", &[])];
        desk.check(Intent::Edits(chain), "+rule a, +rule b, +rule c").await;
        desk.check(
            only(replacing("c", &["a"])),
            "invalid: rule a, replaces: a, c, b replace each other: ..",
        )
        .await;
        desk.check(
            only(remove(Kind::Rule, "c")),
            "invalid: rule b, replaces[0]: there is no rule `c`; ..",
        )
        .await;
        // Turned round as a whole it is a chain again.
        let turned = vec![replacing("c", &["b"]), replacing("b", &["a"]), replacing("a", &[])];
        desk.check(Intent::Edits(turned), "~rule c, ~rule b, ~rule a").await;
        let without = vec![remove(Kind::Rule, "a"), replacing("b", &[])];
        desk.check(Intent::Edits(without), "-rule a, ~rule b").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_others_refer_to_cannot_be_removed() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        desk.check(apply(BASE, &[]), "+tier pro, ..").await;
        let key = json!({"key_id": "k", "digest": "0".repeat(64), "tier": "pro"});
        let needed = vec![
            put(Kind::Client, &client("pro")),
            put(Kind::ApiKey, &key),
            put(Kind::Override, &exception("bucket", &json!({"burst": 20}))),
        ];
        desk.write(needed).await;
        let check = async |edits: Vec<Edit>, expected: &str| {
            desk.check(Intent::Edits(edits), expected).await;
        };
        let exception_name = r#"["bucket","user_id","u1"]"#;
        let client_name = r#"["user_id","u1"]"#;
        check(vec![remove(Kind::Rule, "bucket")], "in use: an override is an exception from the..")
            .await;
        check(
            vec![remove(Kind::Tier, "pro")],
            "in use: 1 client is in the tier pro: user_id u1; 1 API key is in the tier pro: k",
        )
        .await;
        let unused = vec![remove(Kind::Tier, "pro"), remove(Kind::Client, client_name)];
        check(unused, "in use: 1 API key is in the tier pro: k").await;
        // An exception has to make sense with what its rule becomes.
        let fixed = patch(Kind::Rule, "bucket", json!({"algorithm": "fixed_window"}));
        check(vec![fixed.clone()], "invalid: burst: ..").await;
        let both =
            vec![fixed, patch(Kind::Override, exception_name, json!({"burst": null, "limit": 3}))];
        check(both, r#"~rule bucket, ~override ["bucket","user_id","u1"]"#).await;
        let together = vec![remove(Kind::Rule, "bucket"), remove(Kind::Override, exception_name)];
        check(together, r#"-override ["bucket","user_id","u1"], -rule bucket"#).await;
        let together = vec![
            remove(Kind::Tier, "pro"),
            remove(Kind::ApiKey, "k"),
            put(Kind::Client, &client("free")),
        ];
        check(together, "-api_key k, -tier pro, ~client [\"user_id\",\"u1\"]").await;
        // If no tier is declared, any name is accepted.
        let last = vec![remove(Kind::Tier, "free"), remove(Kind::Client, client_name)];
        check(last, "-client [\"user_id\",\"u1\"], -tier free").await;
        check(vec![put(Kind::Client, &client("gold"))], "+client [\"user_id\",\"u1\"]").await;
        let first = vec![put(Kind::Tier, &json!({"tier": "free"}))];
        let why =
            "which has to be declared too, since other names are no tiers once one is declared";
        check(first, &format!("in use: 1 client is in the tier gold, {why}: user_id u1")).await;
    })
    .await;
}

/// Without tiers any name is one, so the last tier could be removed whatever used it.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_tiers_cannot_be_removed_while_they_are_used() {
    const TIERS: [Kind; 1] = [Kind::Tier];
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        desk.check(apply(BASE, &[]), "+tier pro, ..").await;
        let of_tier =
            |id: &str| put(Kind::Rule, &rule(id, &json!({"applies_to": {"user_tiers": ["pro"]}})));
        desk.write(vec![put(Kind::Client, &client("pro")), of_tier("paid")]).await;
        let users =
            "in use: 1 client is in the tier pro: user_id u1; 1 rule is for the tier pro: paid";
        desk.check(apply("tiers: []", &TIERS), users).await;
        desk.check(apply("tiers: [{tier: free}]", &TIERS), users).await;
        desk.check(only(remove(Kind::Tier, "pro")), users).await;
        let both = vec![remove(Kind::Tier, "pro"), remove(Kind::Tier, "free")];
        desk.check(Intent::Edits(both), users).await;
        // Only the first of many are named.
        let more = ["paid2", "paid3", "paid4"].map(of_tier).to_vec();
        desk.write([more, vec![remove(Kind::Client, r#"["user_id","u1"]"#)]].concat()).await;
        let named = "in use: 4 rules are for the tier pro: paid, paid2, paid3 and 1 more";
        desk.check(apply("tiers: []", &TIERS), named).await;
        let with_rules = apply("{tiers: [], rules: []}", &[Kind::Tier, Kind::Rule]);
        desk.check(with_rules, "-rule ..").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_redis_cannot_count_is_refused_where_it_counts() {
    const BEYOND: u64 = (1 << 40) + 1;
    everywhere(async |place| {
        let desk = TestCatalog::open_for(
            place,
            PolicyBounds { for_redis: true, ..PolicyBounds::default() },
        )
        .await;
        let check = async |kind: Kind, body: Json, expected: &str| {
            desk.check(only(put(kind, &body)), expected).await;
        };
        let too_much = json!({"limit": BEYOND});
        let refused = "invalid: rule big, limit: Redis counts exactly up to ..";
        check(Kind::Rule, rule("big", &too_much), refused).await;
        check(
            Kind::Rule,
            rule("big", &json!({"limit": BEYOND, "consistency": "local"})),
            "+rule big",
        )
        .await;
        check(Kind::Rule, rule("big", &too_much), refused).await;
        check(Kind::Rule, rule("small", &json!({})), "+rule small").await;
        let refused = "invalid: Redis counts exactly up to ..";
        check(Kind::Override, exception("small", &too_much), refused).await;
        check(Kind::Override, exception("big", &json!({"limit": 5})), "+override ..").await;
        let multiplied = json!({"multiplier": 1_000_000});
        check(Kind::Override, exception("small", &multiplied), "+override ..").await;
        // A valid override becomes invalid with a larger limit to multiply.
        let larger = only(patch(Kind::Rule, "small", json!({"limit": 2_000_000_000})));
        desk.check(larger, "invalid: Redis counts exactly up to ..").await;
        // The bound holds only for counters in Redis.
        let elsewhere = TestCatalog::of(place, crate::desk::admin());
        let larger = only(patch(Kind::Rule, "small", json!({"limit": BEYOND})));
        elsewhere.check(larger, "~rule small").await;
    })
    .await;
}

/// Nodes with other stores wrote it, and a node with Redis put it into force: rules counted together.
#[tokio::test(flavor = "multi_thread")]
async fn what_redis_cannot_count_is_not_loaded_where_it_counts() {
    const BEYOND: u64 = (1 << 40) + 1;
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let counts_in_redis = PolicyBounds { for_redis: true, ..PolicyBounds::default() };
        let node = Catalog::new(place.url(), counts_in_redis);
        let check = async |bad: Vec<Edit>, expected: &[&str], good: Vec<Edit>| {
            let view = node.view().await.expect("a policy that Redis can count");
            desk.write(bad).await;
            let ChangesSince::Changes(update) = node.since(view.version()).await.expect("changes")
            else {
                panic!("no changes")
            };
            assert!(update.changes.len() < 100);
            let followed = node.follow_view(&view, &update).expect_err("it cannot be counted");
            let read = node.view().await.expect_err("it cannot be counted");
            for error in [followed.to_string(), read.to_string()] {
                assert!(error.contains("holds an invalid policy"), "{error}");
                assert!(expected.iter().all(|text| error.contains(text)), "{error}");
            }
            desk.catalog.view().await.expect("another store can count it");
            desk.write(good).await;
            let ChangesSince::Changes(update) = node.since(view.version()).await.expect("changes")
            else {
                panic!("no changes")
            };
            node.follow_view(&view, &update).expect("a policy that Redis can count");
        };
        let id = |number: usize| format!("many-{number:02}");
        let many = (0..66).map(|it| put(Kind::Rule, &rule(&id(it), &json!({})))).collect();
        let fewer = [64, 65].map(|it| remove(Kind::Rule, &id(it))).to_vec();
        check(many, &["rule many-64", "rule many-65", "at most 64 rules"], fewer).await;
        // Their counters of refusals have one tag.
        let penalty = json!({"identifier_type": "ip", "penalty": {"after": 5, "within_seconds": 60, "ban_seconds": 60}});
        let both = ["rule-1223", "rule-1733"].map(|id| put(Kind::Rule, &rule(id, &penalty)));
        let one = vec![remove(Kind::Rule, "rule-1733")];
        check(both.to_vec(), &["refusals by rule-1733", "bans by rule-1223"], one).await;
        let named = json!({"identifier_type": "ip", "limit": 1000});
        desk.write(vec![put(Kind::Rule, &rule("by-address", &named))]).await;
        let exception = |fields: Json| {
            let client = json!({"rule_id": "by-address", "identifier_type": "ip", "identifier": "10.0.0.1"});
            let mut body = client.as_object().expect("an object").clone();
            body.extend(fields.as_object().expect("fields").clone());
            put(Kind::Override, &Json::from(body))
        };
        let (too_much, multiplied) = (json!({"limit": BEYOND}), json!({"multiplier": 1_000_000}));
        let beyond = "Redis counts exactly up to";
        let bad = vec![exception(too_much)];
        check(bad, &[beyond], vec![exception(multiplied)]).await;
        // The override stays as it is, and its rule gets a larger limit.
        let larger = |limit: u64| vec![patch(Kind::Rule, "by-address", json!({ "limit": limit }))];
        let expected = [beyond, "override of by-address"];
        check(larger(2_000_000_000), &expected, larger(2_000)).await;
    })
    .await;
}
