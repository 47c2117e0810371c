//! What a tenant's administrators write is bounded, and so is every rule.

use serde_json::json;
use tollgate_catalog::{Edit, Intent, Kind, PolicyBounds, WriteBounds};

use crate::desk::{TestCatalog, admin, put, remove, rule, tenant_admin};
use crate::place::{Place, everywhere};

const BOUNDS: WriteBounds = WriteBounds {
    rule_bytes: 500,
    globs_per_rule: 3,
    rules_per_tenant: 2,
    rule_bytes_per_tenant: 400,
    entries_per_tenant: 2,
};

async fn open(place: &Place) -> TestCatalog {
    TestCatalog::open_for(place, PolicyBounds { bounds: BOUNDS, ..PolicyBounds::default() }).await
}

fn own(id: &str, description: &str) -> Edit {
    put(Kind::Rule, &rule(id, &json!({"tenant": "acme", "description": description})))
}

fn listed(user: &str) -> Edit {
    let identifier = json!(["acme", user]);
    let entry = json!({"identifier_type": ["tenant", "user_id"], "identifier": identifier});
    put(Kind::Blacklist, &entry)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_is_bounded_for_every_author() {
    everywhere(async |place| {
        let desk = open(place).await;
        let globs = |count: usize| {
            let globs: Vec<String> = (0..count).map(|at| format!("*{at}*")).collect();
            let applies_to = json!({"attributes": {"a": globs[..1], "b": globs[1..]}});
            Intent::Edits(vec![put(Kind::Rule, &rule("r", &json!({"applies_to": applies_to})))])
        };
        let expected =
            "invalid: rule r: the rule has 4 globs, of at most 3 (limits.globs_per_rule)..";
        desk.check(globs(4), expected).await;
        desk.check(globs(3), "+rule r").await;
        let long = |length| Intent::Edits(vec![own("long", &"x".repeat(length))]);
        desk.check(long(500), "invalid: rule long: the rule takes 6..").await;
        desk.check(long(100), "+rule long").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_cannot_grow_without_bound() {
    everywhere(async |place| {
        let mut desk = open(place).await;
        desk.author = tenant_admin("acme");
        let check = async |desk: &TestCatalog, edit: Edit, expected: &str| {
            desk.check(Intent::Edits(vec![edit]), expected).await;
        };
        check(&desk, own("acme.one", ""), "+rule acme.one").await;
        check(&desk, own("acme.two", ""), "+rule acme.two").await;
        let refused = "invalid: the tenant acme would have 3 rules, of at most 2 \
                       (limits.rules_per_tenant)..";
        check(&desk, own("acme.three", ""), refused).await;
        let refused = "invalid: the rules of the tenant acme would take ..";
        check(&desk, own("acme.two", &"x".repeat(300)), refused).await;
        check(&desk, own("acme.two", "why"), "~rule acme.two").await;
        check(&desk, listed("u1"), "+blacklist ..").await;
        check(&desk, listed("u2"), "+blacklist ..").await;
        let refused = "invalid: the tenant acme would have 3 overrides and list entries, of at most 2 \
                       (limits.entries_per_tenant)..";
        check(&desk, listed("u3"), refused).await;
        // Operators may write more for a tenant, which can then still write less.
        desk.author = admin();
        check(&desk, own("three", ""), "+rule three").await;
        desk.author = tenant_admin("acme");
        check(&desk, own("acme.two", ""), "~rule acme.two").await;
        check(&desk, remove(Kind::Rule, "acme.one"), "-rule acme.one").await;
        check(&desk, own("acme.four", ""), "invalid: the tenant acme would have 3 rules..").await;
    })
    .await;
}

/// A tenant's rules and their candidates took all places of a record, so that operators could write none for it.
#[tokio::test(flavor = "multi_thread")]
async fn rules_of_a_tenant_leave_room_for_operators_in_redis() {
    everywhere(async |place| {
        let bounds = PolicyBounds { for_redis: true, ..PolicyBounds::default() };
        let mut desk = TestCatalog::open_for(place, bounds).await;
        desk.author = tenant_admin("acme");
        let tried = |at: usize, limit: u64| {
            let fields = json!({"tenant": "acme", "limit": limit, "candidate": {"limit": 5}});
            put(Kind::Rule, &rule(&format!("acme.r{at}"), &fields))
        };
        let all = (0..24).map(|at| tried(at, 10)).collect();
        desk.check(Intent::Edits(all), "+rule acme.r0, ..").await;
        let refused = "invalid: rule acme.a, identifier_type: Redis keeps the counters of at most 48 rules ..";
        let one_more = || put(Kind::Rule, &rule("acme.a", &json!({"tenant": "acme"})));
        desk.check(Intent::Edits(vec![one_more()]), refused).await;
        desk.check(Intent::Edits(vec![tried(3, 20)]), "~rule acme.r3").await;
        desk.author = admin();
        let own = put(Kind::Rule, &rule("operators", &json!({"tenant": "acme"})));
        desk.check(Intent::Edits(vec![own]), "+rule operators").await;
        desk.author = tenant_admin("acme");
        desk.check(Intent::Edits(vec![remove(Kind::Rule, "acme.r3")]), "-rule acme.r3").await;
        desk.check(Intent::Edits(vec![one_more()]), "+rule acme.a").await;
    })
    .await;
}
