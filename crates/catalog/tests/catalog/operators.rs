//! What operators write about a tenant stays in force, whatever the administrators of the tenant write.

use serde_json::json;
use tollgate_catalog::{Edit, Expect, Kind};

use crate::desk::{TestCatalog, apply, only, patch, put, put_if, remove, rule, tenant_admin};
use crate::place::everywhere;

fn exception(rule_id: &str) -> Edit {
    let body = json!({
        "rule_id": rule_id, "identifier_type": "user_id", "identifier": "u1", "limit": 1_000_000,
    });
    put(Kind::Override, &body)
}

fn blocked(reason: &str) -> Edit {
    put(
        Kind::Blacklist,
        &json!({"identifier_type": "tenant", "identifier": "acme", "reason": reason}),
    )
}

const BLOCKED: &str = r#"["tenant","acme"]"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_admin_cannot_lift_what_operators_imposed() {
    everywhere(async |place| {
        let operator = TestCatalog::open(place).await;
        let cap = rule("acme_cap", &json!({"tenant": "acme", "limit": 2}));
        let ban = json!({
            "rule_id": "acme_cap", "identifier": ["u1"], "expires_at": "2030-01-01T00:00:00Z",
        });
        operator
            .write(vec![blocked("did not pay"), put(Kind::Rule, &cap), put(Kind::Ban, &ban)])
            .await;
        operator.write(vec![put(Kind::Rule, &rule("acme.reserved", &json!({})))]).await;
        let tenant = TestCatalog::of(place, tenant_admin("acme"));
        let check = async |edit: Edit, expected: &str| tenant.check(only(edit), expected).await;
        for edit in [
            remove(Kind::Blacklist, BLOCKED),
            patch(Kind::Blacklist, BLOCKED, json!({"expires_at": "2020-01-01T00:00:00Z"})),
            blocked("so"),
            patch(Kind::Rule, "acme_cap", json!({"limit": 1_000_000})),
            patch(Kind::Rule, "acme_cap", json!({"enabled": false})),
            put(Kind::Rule, &rule("acme_cap", &json!({"tenant": "acme", "limit": 1_000_000}))),
            remove(Kind::Rule, "acme_cap"),
            exception("acme_cap"),
            put(Kind::Rule, &rule("acme.x", &json!({"tenant": "acme", "replaces": ["acme_cap"]}))),
            remove(Kind::Ban, r#"["acme_cap","u1"]"#),
        ] {
            check(edit, "read only: the ..").await;
        }
        let reserved = put(Kind::Rule, &rule("acme.reserved", &json!({"tenant": "acme"})));
        check(reserved, "not yours: operators have reserved ..").await;
        // To write what is there already changes nothing.
        check(put(Kind::Rule, &cap), "nothing").await;
        let all = [Kind::Rule, Kind::Override, Kind::Blacklist, Kind::Ban];
        tenant.check(apply("rules: []", &all), "nothing").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_writes_becomes_the_operators() {
    everywhere(async |place| {
        let operator = TestCatalog::open(place).await;
        let tenant = TestCatalog::of(place, tenant_admin("acme"));
        let own = |id: &str| put(Kind::Rule, &rule(id, &json!({"tenant": "acme"})));
        tenant.write(vec![own("acme.a"), exception("acme.a"), blocked("moved out")]).await;
        // A document of operators that says the same leaves it to the tenant.
        let same = "
            rules: [{rule_id: acme.a, limit: 10, window_seconds: 60, identifier_type: user_id, tenant: acme}]";
        operator.check(apply(same, &[]), "nothing").await;
        tenant.check(only(patch(Kind::Rule, "acme.a", json!({"limit": 9}))), "~rule acme.a").await;
        // An operator who writes that very entry means it.
        operator.check(only(blocked("moved out")), "~blacklist ..").await;
        tenant.check(only(remove(Kind::Blacklist, BLOCKED)), "read only: ..").await;
        operator.check(only(patch(Kind::Rule, "acme.a", json!({"limit": 2}))), "~rule acme.a").await;
        let over = r#"["acme.a","user_id","u1"]"#;
        for edit in [
            patch(Kind::Rule, "acme.a", json!({"limit": 9})),
            patch(Kind::Override, over, json!({"limit": 9})),
            remove(Kind::Override, over),
        ] {
            tenant.check(only(edit), "read only: ..").await;
        }
        // Written anew by the tenant, it is the tenant's again.
        operator.write(vec![remove(Kind::Override, over), remove(Kind::Rule, "acme.a")]).await;
        tenant.check(only(own("acme.a")), "+rule acme.a").await;
        tenant.check(only(patch(Kind::Rule, "acme.a", json!({"limit": 9}))), "~rule acme.a").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_cannot_write_a_rule_that_a_tenants_rule_replaces() {
    everywhere(async |place| {
        let operator = TestCatalog::open(place).await;
        let tenant = TestCatalog::of(place, tenant_admin("acme"));
        let own = |id: &str, replaces: &[&str]| {
            put(Kind::Rule, &rule(id, &json!({"tenant": "acme", "replaces": replaces})))
        };
        tenant.write(vec![own("acme.a", &[]), own("acme.b", &["acme.a"])]).await;
        let cap = patch(Kind::Rule, "acme.a", json!({"limit": 2}));
        let expected = "in use: the rule acme.b, which administrators of the tenant acme wrote, ..";
        operator.check(only(cap.clone()), expected).await;
        operator.write(vec![cap, patch(Kind::Rule, "acme.b", json!({"limit": 9}))]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_admin_cannot_tell_whether_others_have_a_rule() {
    everywhere(async |place| {
        let operator = TestCatalog::open(place).await;
        for (id, tenant) in
            [("taken", None), ("acme.b.c", Some("acme.b")), ("acme_x", Some("other"))]
        {
            operator.write(vec![put(Kind::Rule, &rule(id, &json!({"tenant": tenant})))]).await;
        }
        let tenant = TestCatalog::of(place, tenant_admin("acme"));
        let pairs = [("taken", "free0"), ("acme.b.c", "acme.b.d"), ("acme_x", "acme_y")];
        for expect in [Expect::Anything, Expect::Absent, Expect::Present, Expect::Version(1)] {
            for (taken, free) in pairs {
                let mut told = Vec::new();
                for id in [taken, free] {
                    let body = rule(id, &json!({"tenant": "acme"}));
                    let edit = put_if(expect, Kind::Rule, &body);
                    let now = crate::desk::NOW;
                    let written = tenant.catalog.write(&tenant.author, only(edit), now, true).await;
                    told.push(crate::desk::tell(&written).replace(id, "ID"));
                }
                assert_eq!(told[0], told[1], "{taken} {expect:?}");
                assert!(told[0].contains("needs a rule_id `acme.NAME`"), "{told:?}");
            }
        }
    })
    .await;
}

/// A tenant whose name cannot be part of a `rule_id` has a prefix too.
#[tokio::test(flavor = "multi_thread")]
async fn every_tenant_has_ids_for_its_rules() {
    everywhere(async |place| {
        let _operator = TestCatalog::open(place).await;
        for (tenant, prefix) in
            [("example.com", "example.com."), ("Acme Inc", "tenant-42cf7a26a3123b9e.")]
        {
            let desk = TestCatalog::of(place, tenant_admin(tenant));
            let own = |id: &str| only(put(Kind::Rule, &rule(id, &json!({"tenant": tenant}))));
            desk.check(
                own("x"),
                &format!(
                    "not yours: the rule x is not one of the tenant {tenant}: a new rule \
                needs a rule_id `{prefix}NAME`, with no dot in NAME"
                ),
            )
            .await;
            desk.check(own(&format!("{prefix}x")), &format!("+rule {prefix}x")).await;
            desk.check(own(&format!("{prefix}x.y")), "not yours: ..").await;
            desk.check(own(prefix), "not yours: ..").await;
        }
    })
    .await;
}
