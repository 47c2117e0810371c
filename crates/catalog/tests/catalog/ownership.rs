//! Administrators of a tenant change what they wrote themselves, and only ever tighten.

use serde_json::{Value as Json, json};
use tollgate_catalog::{AuditFilter, Edit, Filter, Intent, Kind};

use crate::desk::{
    TestCatalog, admin, apply, contents, only, patch, put, remove, rule, subject_of, tenant_admin,
};
use crate::place::{Place, everywhere};

const END: &str = "2030-01-01T00:00:00Z";

const BASE: &str = "
    rules:
      - {rule_id: everyone, limit: 10, window: 1m, identifier_type: user_id}
      - {rule_id: acme, limit: 10, window: 1m, identifier_type: user_id, tenant: acme}
      - {rule_id: umbrella, limit: 10, window: 1m, identifier_type: user_id, tenant: umbrella}
    overrides:
      - {rule_id: everyone, identifier_type: user_id, identifier: u1, limit: 1}
      - {rule_id: acme, identifier_type: user_id, identifier: u1, limit: 1}
      - {rule_id: umbrella, identifier_type: user_id, identifier: u1, limit: 1}
    whitelist: [{identifier_type: tenant, identifier: acme}]
    blacklist:
      - {identifier_type: [tenant, user_id], identifier: [acme, u1]}
      - {identifier_type: [tenant, user_id], identifier: [umbrella, u1]}
      - {identifier_type: user_id, identifier: u1}";

/// What administrators of the tenant wrote themselves.
const OWN: &str = "
    rules:
      - {rule_id: acme.own, limit: 10, window: 1m, identifier_type: user_id, tenant: acme}
    overrides:
      - {rule_id: acme.own, identifier_type: user_id, identifier: u1, limit: 1}
    blacklist:
      - {identifier_type: [tenant, user_id], identifier: [acme, u9]}";

/// A catalog with entries of operators about two tenants and about everybody, entries that the administrators of one
/// tenant wrote, and one of these administrators.
async fn of_acme(place: &Place) -> TestCatalog {
    let desk = TestCatalog::open(place).await;
    desk.check(apply(BASE, &[]), "+rule everyone, +rule acme, ..").await;
    let acme = TestCatalog::of(place, tenant_admin("acme"));
    acme.check(apply(OWN, &[]), "+rule acme.own, ..").await;
    let bans = [("acme", "acme"), ("umbrella", "umbrella"), ("acme.own", "acme")];
    desk.write(bans.map(|(rule_id, tenant)| ban(rule_id, Some(tenant))).to_vec()).await;
    acme
}

fn exception(rule_id: &str, user: &str) -> Edit {
    let user =
        json!({"rule_id": rule_id, "identifier_type": "user_id", "identifier": user, "limit": 5});
    put(Kind::Override, &user)
}

fn listed(kind: Kind, types: &Json, values: &Json) -> Edit {
    put(kind, &json!({"identifier_type": types, "identifier": values, "reason": "so"}))
}

fn ban(rule_id: &str, tenant: Option<&str>) -> Edit {
    let mut ban = json!({"rule_id": rule_id, "identifier": ["u1"], "expires_at": END});
    if let Some(tenant) = tenant {
        ban["tenant"] = json!(tenant);
    }
    put(Kind::Ban, &ban)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_changes_its_own() {
    everywhere(async |place| {
        let desk = of_acme(place).await;
        let check = async |edits: Vec<Edit>, expected: &str| {
            desk.check(Intent::Edits(edits), expected).await;
        };
        let own = |id: &str, more: Json| {
            let mut body = rule(id, &more);
            body["tenant"] = json!("acme");
            put(Kind::Rule, &body)
        };
        check(vec![patch(Kind::Rule, "acme.own", json!({"limit": 5}))], "~rule acme.own").await;
        check(vec![own("acme.2", json!({"replaces": ["acme.own"]}))], "+rule acme.2").await;
        check(vec![exception("acme.own", "u2")], "+override ..").await;
        check(vec![remove(Kind::Override, r#"["acme.own","user_id","u2"]"#)], "-override ..").await;
        // A rule and what refers to it at once.
        let both = vec![exception("acme.3", "u1"), own("acme.3", json!({"replaces": ["acme.2"]}))];
        check(both, "+rule acme.3, +override ..").await;
        let pair = (json!(["user_id", "tenant"]), json!(["u2", "acme"]));
        check(vec![listed(Kind::Blacklist, &pair.0, &pair.1)], "+blacklist ..").await;
        let whole = (json!("tenant"), json!("acme"));
        check(vec![listed(Kind::Blacklist, &whole.0, &whole.1)], "+blacklist ..").await;
        check(vec![remove(Kind::Blacklist, r#"["tenant","acme"]"#)], "-blacklist ..").await;
        check(vec![ban("acme.2", Some("acme"))], "+ban ..").await;
        check(vec![remove(Kind::Ban, r#"["acme.2","u1"]"#)], "-ban ..").await;
        let gone = vec![
            remove(Kind::Override, r#"["acme.3","user_id","u1"]"#),
            remove(Kind::Rule, "acme.3"),
        ];
        check(gone, "-override ..").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_changes_nothing_else() {
    everywhere(async |place| {
        let desk = of_acme(place).await;
        let check = async |edit: Edit, expected: &str| {
            desk.check(only(edit), expected).await;
        };
        let refused = async |edit: Edit| check(edit, "not yours: ..").await;
        for rule_id in ["everyone", "umbrella"] {
            // What it cannot see is not there.
            check(patch(Kind::Rule, rule_id, json!({"limit": 1})), "missing: ..").await;
            check(patch(Kind::Rule, rule_id, json!({"tenant": "acme"})), "missing: ..").await;
            let over = format!(r#"["{rule_id}","user_id","u1"]"#);
            check(remove(Kind::Override, &over), "nothing").await;
            check(patch(Kind::Override, &over, json!({"limit": 9})), "missing: ..").await;
            refused(exception(rule_id, "u2")).await;
            // Whatever it says of itself, a ban belongs to whom its rule belongs to.
            refused(ban(rule_id, Some("acme"))).await;
            let replacing = json!({"tenant": "acme", "replaces": [rule_id]});
            refused(put(Kind::Rule, &rule("acme.mine", &replacing))).await;
            let replacing = json!({"replaces": ["acme.own", rule_id]});
            refused(patch(Kind::Rule, "acme.own", replacing)).await;
            refused(put(Kind::Rule, &rule(rule_id, &json!({"tenant": "acme"})))).await;
        }
        refused(put(Kind::Rule, &rule("acme.new", &json!({})))).await;
        refused(put(Kind::Rule, &rule("acme.new", &json!({"tenant": "umbrella"})))).await;
        refused(patch(Kind::Rule, "acme.own", json!({"tenant": null}))).await;
        refused(patch(Kind::Rule, "acme.own", json!({"tenant": "umbrella"}))).await;
        check(remove(Kind::Rule, "umbrella"), "nothing").await;
        check(remove(Kind::Ban, r#"["umbrella","u1"]"#), "nothing").await;
        for (types, values) in [
            (json!("user_id"), json!("u1")),
            (json!("tenant"), json!("umbrella")),
            (json!(["user_id", "tenant"]), json!(["acme", "umbrella"])),
            (json!("ip"), json!("192.0.2.0/24")),
        ] {
            refused(listed(Kind::Blacklist, &types, &values)).await;
            refused(listed(Kind::Whitelist, &types, &values)).await;
        }
        check(remove(Kind::Blacklist, r#"["user_id","u1"]"#), "nothing").await;
        // A whitelist entry about its own tenant is refused too.
        refused(listed(Kind::Whitelist, &json!(["tenant", "user_id"]), &json!(["acme", "u1"])))
            .await;
        check(remove(Kind::Whitelist, r#"["tenant","acme"]"#), "read only: ..").await;
        refused(put(Kind::Tier, &json!({"tier": "gold"}))).await;
        let client = json!({"identifier_type": "tenant", "identifier": "acme", "tier": "gold"});
        refused(put(Kind::Client, &client)).await;
        let key = json!({"key_id": "k", "digest": "0".repeat(64), "tenant": "acme"});
        refused(put(Kind::ApiKey, &key)).await;
        let token = json!({
            "token_id": "t", "digest": "0".repeat(64), "role": "tenant-admin", "tenant": "acme",
        });
        refused(put(Kind::Token, &token)).await;
        // One foreign edit among its own spoils all.
        let mixed =
            vec![patch(Kind::Rule, "acme.own", json!({"limit": 7})), exception("everyone", "u3")];
        desk.check(Intent::Edits(mixed), "not yours: ..").await;
    })
    .await;
}

/// A rule cannot be smuggled out of, or into, a tenant by changing it and what refers to it at once.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_cannot_change_hands_by_a_detour() {
    everywhere(async |place| {
        let desk = of_acme(place).await;
        let taken = vec![
            put(Kind::Rule, &rule("everyone", &json!({"tenant": "acme"}))),
            remove(Kind::Override, r#"["everyone","user_id","u1"]"#),
        ];
        desk.check(Intent::Edits(taken), "not yours: ..").await;
        let replaced = vec![
            put(Kind::Rule, &rule("umbrella", &json!({"tenant": "acme"}))),
            patch(Kind::Rule, "acme.own", json!({"replaces": ["umbrella"]})),
        ];
        desk.check(Intent::Edits(replaced), "not yours: ..").await;
    })
    .await;
}

/// The refusals of a tenant's rule were any page, with scripts, on the address of the operators.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_a_tenant_are_no_pages() {
    everywhere(async |place| {
        let desk = of_acme(place).await;
        let refusal = |content_type: &str| {
            let refusal = json!({"body": "{}", "content_type": content_type});
            only(patch(Kind::Rule, "acme.own", json!({ "refusal": refusal })))
        };
        for page in ["text/html", "image/svg+xml", "application/xhtml+xml; q=application/json"] {
            desk.check(refusal(page), "invalid: ..").await;
        }
        for text in ["application/json", "application/problem+json", "Text/Plain; charset=utf-8"] {
            desk.check(refusal(text), "~rule acme.own").await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_of_a_tenant_prunes_its_own_alone() {
    const PRUNED: [Kind; 4] = [Kind::Rule, Kind::Override, Kind::Blacklist, Kind::Ban];
    everywhere(async |place| {
        let desk = of_acme(place).await;
        let before = contents(&desk.catalog).await;
        // What operators wrote about the tenant may stay in its document; what it cannot see may not.
        let seen = "
            rules: [{rule_id: acme, limit: 10, window: 1m, identifier_type: user_id, tenant: acme}]
            whitelist: [{identifier_type: tenant, identifier: acme}]";
        desk.check(apply(seen, &[]), "nothing").await;
        desk.check(apply(BASE, &[]), "not yours: ..").await;
        let foreign =
            "rules: [{rule_id: everyone, limit: 9, window: 1m, identifier_type: user_id}]";
        desk.check(apply(foreign, &PRUNED), "not yours: ..").await;
        let own = "
            rules:
              - {rule_id: acme.mine, limit: 9, window: 1m, identifier_type: user_id, tenant: acme}";
        let pruned = [
            r#"-ban ["acme.own","u1"]"#,
            r#"-blacklist ["user_id","u9","tenant","acme"]"#,
            r#"-override ["acme.own","user_id","u1"]"#,
            "-rule acme.own",
            "+rule acme.mine",
        ];
        desk.check(apply(own, &PRUNED), &pruned.join(", ")).await;
        let after = contents(&desk.catalog).await;
        assert_eq!(after.len(), before.len() - 3);
        let others = [Kind::Tier, Kind::Client, Kind::Token, Kind::Whitelist];
        desk.check(apply("rules: []", &others), "nothing").await;
        desk.check(apply("rules: []", &PRUNED), "-rule acme.mine").await;
    })
    .await;
}

/// What a tenant is shown is what belongs to it, also after it has changed hands.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_shown_its_own() {
    everywhere(async |place| {
        let acme = of_acme(place).await;
        let of = async |tenant: &str, kind: Kind| -> Vec<String> {
            let filter = Filter { tenant: Some(tenant.to_owned()), ..Filter::default() };
            let page = acme.catalog.page(kind, &filter, None, 100).await.expect("a page");
            page.entries.into_iter().map(|stored| stored.name).collect()
        };
        let exceptions = [r#"["acme","user_id","u1"]"#, r#"["acme.own","user_id","u1"]"#];
        let listed = [r#"["user_id","u1","tenant","acme"]"#, r#"["user_id","u9","tenant","acme"]"#];
        assert_eq!(of("acme", Kind::Rule).await, ["acme", "acme.own"]);
        assert_eq!(of("acme", Kind::Override).await, exceptions);
        assert_eq!(of("acme", Kind::Blacklist).await, listed);
        assert_eq!(of("acme", Kind::Ban).await, [r#"["acme","u1"]"#, r#"["acme.own","u1"]"#]);
        assert_eq!(of("acme", Kind::Tier).await, [""; 0]);
        let log = async |tenant: &str| -> Vec<String> {
            let filter = AuditFilter { tenant: Some(tenant.to_owned()), ..AuditFilter::default() };
            let log = acme.catalog.audit(&filter, None, 100).await.expect("a log");
            log.iter().map(subject_of).collect()
        };
        let whole: Vec<String> = log("acme").await;
        assert_eq!(
            whole,
            [
                r#"ban ["acme.own","u1"]"#,
                r#"ban ["acme","u1"]"#,
                r#"blacklist ["user_id","u9","tenant","acme"]"#,
                r#"override ["acme.own","user_id","u1"]"#,
                "rule acme.own",
                r#"blacklist ["user_id","u1","tenant","acme"]"#,
                r#"whitelist ["tenant","acme"]"#,
                r#"override ["acme","user_id","u1"]"#,
                "rule acme",
            ]
        );
        // The rule goes to others, and its exceptions with it.
        let desk = TestCatalog::of(place, admin());
        desk.write(vec![patch(Kind::Rule, "acme", json!({"tenant": "umbrella"}))]).await;
        let exceptions = [r#"["acme","user_id","u1"]"#, r#"["umbrella","user_id","u1"]"#];
        assert_eq!(of("umbrella", Kind::Override).await, exceptions);
        assert_eq!(of("acme", Kind::Override).await, [r#"["acme.own","user_id","u1"]"#]);
        let edit = patch(Kind::Override, exceptions[0], json!({"limit": 8}));
        acme.check(only(edit.clone()), "missing: ..").await;
        // The new tenant sees it and its later changes.
        let umbrella = TestCatalog::of(place, tenant_admin("umbrella"));
        umbrella.check(only(edit.clone()), "read only: ..").await;
        desk.check(only(edit), "~override ..").await;
        assert_eq!(log("umbrella").await[0], r#"override ["acme","user_id","u1"]"#);
        assert_eq!(log("umbrella").await[1], "rule acme");
    })
    .await;
}
