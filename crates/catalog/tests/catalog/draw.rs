//! Random writes over a few names: entries that fit each other and entries that do not, by people who
//! may do everything and people who may not.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value as Json, json};
use tollgate_catalog::Kind;

/// A write to the catalog, how many counters are reset before, and whether a node reads the catalog
/// afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) tenant: Option<&'static str>,
    pub(crate) intent: Draft,
    pub(crate) resets: u64,
    pub(crate) is_trial: bool,
    pub(crate) is_seen: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Draft {
    Edits(Vec<DraftEdit>),
    Apply { items: Vec<Item>, prune: Vec<Kind> },
}

#[derive(Clone, Debug)]
pub(crate) struct DraftEdit {
    pub(crate) item: Item,
    pub(crate) action: Action,
    pub(crate) expect: Expected,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Put,
    /// Sets one of the fields that the item has beyond those that name it, or lacks.
    Patch(usize),
    Remove,
}

/// The condition of an edit, relative to the current entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    Anything,
    Absent,
    Present,
    ThisVersion,
    OtherVersion,
}

/// An entry as it is written, and its name.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) body: Map<String, Json>,
    /// Fields that may be set without changing its name.
    pub(crate) free: &'static [&'static str],
}

/// Clients, each in two spellings, and what they are called in lists of names.
#[derive(Clone, Copy, Debug)]
struct Who {
    spellings: [(&'static str, &'static str); 2],
    parts: &'static str,
    listed: &'static str,
}

const USER: Who = Who {
    spellings: [(r#""user_id""#, r#""u1""#), (r#"["user_id"]"#, r#"["u1"]"#)],
    parts: r#""user_id","u1""#,
    listed: r#""user_id","u1""#,
};
const MEMBER: Who = Who {
    spellings: [
        (r#"["user_id","tenant"]"#, r#"["u1","acme"]"#),
        (r#"["tenant","user_id"]"#, r#"["acme","u1"]"#),
    ],
    parts: r#""user_id","u1","tenant","acme""#,
    listed: r#""user_id","u1","tenant","acme""#,
};
const SITE: Who = Who {
    spellings: [(r#""ip""#, r#""2001:db8::1""#), (r#""ip""#, r#""2001:0DB8:0:0::1""#)],
    parts: r#""ip","2001:db8::/64""#,
    listed: r#""ip","2001:db8::1""#,
};

fn who() -> impl Strategy<Value = (Who, usize)> {
    (select(vec![USER, MEMBER, SITE]), 0..2_usize)
}

impl Who {
    fn body(self, spelling: usize) -> Map<String, Json> {
        let (types, values) = self.spellings[spelling];
        let read = |text: &str| match serde_json::from_str(text).expect("JSON") {
            // A list of one is kept as that one.
            Json::Array(mut only) if only.len() == 1 => only.remove(0),
            other => other,
        };
        object(&json!({"identifier_type": read(types), "identifier": read(values)}))
    }
}

pub(crate) fn object(body: &Json) -> Map<String, Json> {
    body.as_object().expect("an object").clone()
}

fn put(body: &mut Map<String, Json>, field: &str, value: Option<Json>) {
    if let Some(value) = value {
        body.insert(field.to_owned(), value);
    }
}

fn maybe<T: Clone + std::fmt::Debug + 'static>(values: Vec<T>) -> impl Strategy<Value = Option<T>> {
    prop::option::of(select(values))
}

fn tenant() -> impl Strategy<Value = Option<&'static str>> {
    maybe(vec!["acme", "umbrella"])
}

fn rule_id() -> impl Strategy<Value = &'static str> {
    prop_oneof![12 => select(vec!["r1", "r2", "acme.r3", "acme.r4"]), 1 => Just("r9")]
}

fn tier() -> impl Strategy<Value = &'static str> {
    select(vec!["t1", "t2", "t3"])
}

fn digest() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "c"]).prop_map(|digit| digit.repeat(64))
}

fn rule() -> impl Strategy<Value = Item> {
    let replaces = prop_oneof![
        3 => Just(Vec::new()),
        2 => subsequence(vec!["r1", "r2", "acme.r3", "acme.r4", "r9"], 0..2),
    ];
    let fields = (1..4_u64, prop::bool::ANY, tenant(), replaces, prop::bool::weighted(0.2));
    (rule_id(), fields, prop::option::weighted(0.15, tier())).prop_map(
        |(id, (limit, is_bucket, tenant, replaces, is_off), tier)| {
            let mut body = object(&json!({
                "rule_id": id, "limit": limit, "window_seconds": 60, "identifier_type": "user_id",
            }));
            put(&mut body, "algorithm", is_bucket.then(|| json!("token_bucket")));
            put(&mut body, "tenant", tenant.map(Into::into));
            put(&mut body, "replaces", (!replaces.is_empty()).then(|| json!(replaces)));
            put(&mut body, "enabled", is_off.then_some(Json::Bool(false)));
            put(&mut body, "applies_to", tier.map(|tier| json!({"user_tiers": [tier]})));
            let free = &["limit", "algorithm", "tenant", "replaces", "enabled"][..];
            Item { kind: Kind::Rule, name: id.to_owned(), body, free }
        },
    )
}

fn tier_item() -> impl Strategy<Value = Item> {
    (tier(), prop::bool::weighted(0.3)).prop_map(|(tier, is_default)| {
        let mut body = object(&json!({"tier": tier}));
        put(&mut body, "default", is_default.then_some(Json::Bool(true)));
        Item { kind: Kind::Tier, name: tier.to_owned(), body, free: &["default"] }
    })
}

fn client() -> impl Strategy<Value = Item> {
    (who(), tier()).prop_map(|((who, spelling), tier)| {
        let mut body = who.body(spelling);
        put(&mut body, "tier", Some(json!(tier)));
        Item { kind: Kind::Client, name: format!("[{}]", who.parts), body, free: &["tier"] }
    })
}

fn exception() -> impl Strategy<Value = Item> {
    let what = (prop::option::weighted(0.8, 1..4_u64), prop::option::weighted(0.3, 1..4_u64));
    // Rules count by the user, so that the others are refused.
    let who = prop_oneof![8 => Just(USER), 1 => select(vec![MEMBER, SITE])];
    (rule_id(), (who, 0..2_usize), what).prop_map(|(id, (who, spelling), (limit, burst))| {
        let mut body = who.body(spelling);
        put(&mut body, "rule_id", Some(json!(id)));
        put(&mut body, "limit", limit.map(Into::into));
        put(&mut body, "burst", burst.map(Into::into));
        let name = format!(r#"["{id}",{}]"#, who.parts);
        Item { kind: Kind::Override, name, body, free: &["limit", "burst"] }
    })
}

fn listed() -> impl Strategy<Value = Item> {
    let kind = select(vec![Kind::Whitelist, Kind::Blacklist]);
    (kind, who(), maybe(vec!["so", "because"])).prop_map(|(kind, (who, spelling), reason)| {
        let mut body = who.body(spelling);
        put(&mut body, "reason", reason.map(Into::into));
        Item { kind, name: format!("[{}]", who.listed), body, free: &["reason"] }
    })
}

fn api_key() -> impl Strategy<Value = Item> {
    (select(vec!["k1", "k2"]), digest(), prop::option::of(tier())).prop_map(|(id, digest, tier)| {
        let mut body = object(&json!({"key_id": id, "digest": digest}));
        put(&mut body, "tier", tier.map(Into::into));
        Item { kind: Kind::ApiKey, name: id.to_owned(), body, free: &["digest", "tier"] }
    })
}

fn token() -> impl Strategy<Value = Item> {
    let role = select(vec!["viewer", "tenant-admin"]);
    (select(vec!["k1", "k2"]), digest(), role, tenant()).prop_map(|(id, digest, role, tenant)| {
        let mut body = object(&json!({"token_id": id, "digest": digest, "role": role}));
        put(&mut body, "tenant", tenant.map(Into::into));
        Item { kind: Kind::Token, name: id.to_owned(), body, free: &["digest", "role", "tenant"] }
    })
}

fn ban() -> impl Strategy<Value = Item> {
    (rule_id(), select(vec!["u1", "u2"]), select(vec![2030, 2031])).prop_map(|(id, user, year)| {
        let end = format!("{year}-01-01T00:00:00Z");
        let body = object(&json!({"rule_id": id, "identifier": [user], "expires_at": end}));
        let name = format!(r#"["{id}","{user}"]"#);
        Item { kind: Kind::Ban, name, body, free: &["expires_at"] }
    })
}

fn item_of_a_policy() -> impl Strategy<Value = Item> {
    prop_oneof![5 => rule(), 3 => tier_item(), 2 => client(), 3 => exception(), 2 => listed()]
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![12 => item_of_a_policy(), 2 => api_key(), 2 => token(), 1 => ban()]
}

fn edit() -> impl Strategy<Value = DraftEdit> {
    let action = prop_oneof![
        5 => Just(Action::Put),
        2 => (0..8_usize).prop_map(Action::Patch),
        2 => Just(Action::Remove),
    ];
    let expect = prop_oneof![
        16 => Just(Expected::Anything),
        1 => Just(Expected::Absent),
        1 => Just(Expected::Present),
        1 => Just(Expected::ThisVersion),
        1 => Just(Expected::OtherVersion),
    ];
    (item(), action, expect).prop_map(|(item, action, expect)| DraftEdit { item, action, expect })
}

fn draft() -> impl Strategy<Value = Draft> {
    let kinds = vec![
        Kind::Rule,
        Kind::Tier,
        Kind::Client,
        Kind::Override,
        Kind::Whitelist,
        Kind::Blacklist,
    ];
    prop_oneof![
        5 => vec(edit(), 1..4).prop_map(Draft::Edits),
        1 => (vec(item_of_a_policy(), 0..5), subsequence(kinds, 0..5))
            .prop_map(|(items, prune)| Draft::Apply { items, prune }),
    ]
}

/// So many writes at most.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let author = prop_oneof![3 => Just(None), 2 => Just(Some("acme"))];
    let resets = prop_oneof![3 => Just(0), 1 => 1_u64..4];
    let (is_trial, is_seen) = (prop::bool::weighted(0.1), prop::bool::weighted(0.6));
    let step = (author, draft(), resets, is_trial, is_seen);
    vec(
        step.prop_map(|(tenant, intent, resets, is_trial, is_seen)| Step {
            tenant,
            intent,
            resets,
            is_trial,
            is_seen,
        }),
        1..most,
    )
}
