//! Frequent queries use an index, however many entries there are.

use tollgate_catalog::{AuditFilter, Catalog, Filter, Kind, QueryPlan};

use crate::desk::TestCatalog;
use crate::place::{Place, everywhere};

/// Some thousand rows in the tables that grow.
const ROWS: &str = "
    CREATE TABLE numbers AS
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 4000) SELECT n FROM n;
    INSERT INTO tollgate_revisions (number, stamp, changed_at, actor, role)
        SELECT n, n, n * 1000, 'a' || n % 50, 'admin' FROM numbers;
    INSERT INTO tollgate_changes (revision, place, kind, entry, tenant, becomes)
        SELECT n, 0, 'rule', 'r' || n % 500, 't' || n % 400, '{}' FROM numbers;
    INSERT INTO tollgate_rules (entry, tenant, enabled, body, version, created_at, created_by)
        SELECT 'r' || n, 't' || n % 400, 1, '{}', 1, 1, 'a' FROM numbers;
    INSERT INTO tollgate_clients
        (entry, identifier_type, identifier, tier, body, version, created_at, created_by)
        SELECT 'c' || n, 'user_id', 'u' || n, 'tier' || n % 400, '{}', 1, 1, 'a' FROM numbers;
    INSERT INTO tollgate_overrides
        (entry, rule_id, identifier_type, identifier, tenant, body, version, created_at, created_by)
        SELECT 'o' || n, 'r' || (1 + n % 400), 'user_id', 'u' || n, 't' || n % 400, '{}', 1, 1, 'a'
        FROM numbers;
    INSERT INTO tollgate_whitelist
        (entry, identifier_type, identifier, tenant, body, version, created_at, created_by)
        SELECT 'w' || n, 'user_id', 'u' || n, 't' || n % 400, '{}', 1, 1, 'a' FROM numbers;
    INSERT INTO tollgate_blacklist
        (entry, identifier_type, identifier, tenant, body, version, created_at, created_by)
        SELECT 'b' || n, 'user_id', 'u' || n, 't' || n % 400, '{}', 1, 1, 'a' FROM numbers;
    INSERT INTO tollgate_api_keys (entry, digest, owner, tier, body, version, created_at, created_by)
        SELECT 'k' || n, substr(
            '0000000000000000000000000000000000000000000000000000000000000000' || n, length('' || n) + 1
        ), 'u' || n % 400, 'tier' || n % 400, '{}', 1, 1, 'a' FROM numbers;
    INSERT INTO tollgate_bans
        (entry, rule_id, identifier, tenant, expires_at, body, version, created_at, created_by)
        SELECT 'x' || n, 'r' || n % 400, 'u' || n, 't' || n % 400, n, '{}', 1, 1, 'a' FROM numbers;
    INSERT INTO tollgate_resets
        (revision, place, changed_at, actor, role, entry, tenant, was, becomes)
        SELECT n, 4294967296, n * 1000, 'a' || n % 50, 'admin', 'r' || n % 500, 't' || n % 400, '{}', '{}'
        FROM numbers;
    DROP TABLE numbers;
    ANALYZE;
";

/// A catalog with many entries, on which a database goes through all of them only if it has to.
async fn filled(place: &Place) -> Catalog {
    drop(TestCatalog::open(place).await);
    let mut raw = place.raw().await;
    raw.run(ROWS).await;
    if place.is_shared() {
        let database = raw.texts("SELECT CAST(current_database() AS TEXT)").await.remove(0);
        raw.run(&format!("ALTER DATABASE {database} SET enable_seqscan = off")).await;
    }
    place.catalog()
}

/// The query uses the index of that name, and scans no table.
async fn check(catalog: &Catalog, question: QueryPlan, in_postgres: &str, in_sqlite: &str) {
    let plan = catalog.plan_of(&question).await.expect("a plan").join("\n");
    let index = if catalog.url().is_shared() { in_postgres } else { in_sqlite };
    let is_used = plan.split_whitespace().any(|word| word == index);
    assert!(is_used, "{question:?} by {index}, not by\n{plan}");
    assert!(!plan.contains("Seq Scan"), "{question:?} by\n{plan}");
    let scans = plan.lines().filter(|line| line.starts_with("SCAN"));
    assert!(scans.clone().all(|line| line.contains("USING INDEX")), "{question:?} by\n{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_looked_up() {
    everywhere(async |place| {
        let catalog = filled(place).await;
        let check = async |kind: Kind, filter: Filter, in_postgres: &str, in_sqlite: &str| {
            check(&catalog, QueryPlan::Page(kind, filter), in_postgres, in_sqlite).await;
        };
        for kind in Kind::ALL {
            let table = table_of(kind);
            let in_sqlite = format!("sqlite_autoindex_{table}_1");
            check(kind, Filter::default(), &format!("{table}_pkey"), &in_sqlite).await;
        }
        let named = async |kind: Kind, filter: Filter, by: &str| {
            let index = format!("{}_by_{by}", table_of(kind));
            check(kind, filter, &index, &index).await;
        };
        let tenant = || Filter { tenant: Some("t7".to_owned()), ..Filter::default() };
        for kind in [Kind::Rule, Kind::Override, Kind::Whitelist, Kind::Blacklist, Kind::Ban] {
            named(kind, tenant(), "tenant").await;
        }
        let rule = || Filter { rule_id: Some("r7".to_owned()), ..Filter::default() };
        named(Kind::Override, rule(), "rule").await;
        named(Kind::Ban, rule(), "rule").await;
        let tier = || Filter { tier: Some("tier7".to_owned()), ..Filter::default() };
        named(Kind::Client, tier(), "tier").await;
        named(Kind::ApiKey, tier(), "tier").await;
        for kind in [Kind::Client, Kind::Override, Kind::Whitelist, Kind::Blacklist] {
            let client = Filter {
                identifier_type: Some("user_id".to_owned()),
                identifier: Some("u7".to_owned()),
                ..Filter::default()
            };
            let table = table_of(kind);
            let rule = if kind == Kind::Override { "_rule_id" } else { "" };
            let in_postgres = format!("{table}_identifier_type_identifier{rule}_key");
            check(kind, client, &in_postgres, &format!("sqlite_autoindex_{table}_2")).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_write_needs_is_looked_up() {
    everywhere(async |place| {
        let catalog = filled(place).await;
        let check = async |question: QueryPlan, index: &str| {
            check(&catalog, question, index, index).await;
        };
        check(QueryPlan::OverridesOf, "tollgate_overrides_by_rule").await;
        for kind in [Kind::Rule, Kind::Override, Kind::Blacklist, Kind::Ban] {
            check(QueryPlan::NamesOf(kind), &format!("{}_by_tenant", table_of(kind))).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_looked_up() {
    everywhere(async |place| {
        let catalog = filled(place).await;
        let check = async |question: QueryPlan, in_postgres: &str, in_sqlite: &str| {
            check(&catalog, question, in_postgres, in_sqlite).await;
        };
        let any = AuditFilter::default;
        let place = Some((1500, 3));
        let in_order = ("tollgate_changes_pkey", "sqlite_autoindex_tollgate_changes_1");
        check(QueryPlan::Changes, in_order.0, in_order.1).await;
        check(QueryPlan::Audit(any(), None), in_order.0, in_order.1).await;
        check(QueryPlan::Audit(any(), place), in_order.0, in_order.1).await;
        let entry =
            AuditFilter { kind: Some(Kind::Rule.into()), entry: Some("r7".to_owned()), ..any() };
        let by_entry = "tollgate_changes_by_entry";
        check(QueryPlan::Audit(entry, None), by_entry, by_entry).await;
        let tenant = AuditFilter { tenant: Some("t7".to_owned()), ..any() };
        let by_tenant = "tollgate_changes_by_tenant";
        check(QueryPlan::Audit(tenant.clone(), None), by_tenant, by_tenant).await;
        check(QueryPlan::Audit(tenant, place), by_tenant, by_tenant).await;
        let in_order = ("tollgate_resets_pkey", "sqlite_autoindex_tollgate_resets_1");
        check(QueryPlan::Resets(any(), None), in_order.0, in_order.1).await;
        check(QueryPlan::Resets(any(), place), in_order.0, in_order.1).await;
        let entry = AuditFilter { entry: Some("r7".to_owned()), ..any() };
        let by_entry = "tollgate_resets_by_entry";
        check(QueryPlan::Resets(entry, None), by_entry, by_entry).await;
        let tenant = AuditFilter { tenant: Some("t7".to_owned()), ..any() };
        let by_tenant = "tollgate_resets_by_tenant";
        check(QueryPlan::Resets(tenant, place), by_tenant, by_tenant).await;
        check(QueryPlan::Known, "tollgate_revisions_pkey", "sqlite_autoindex_tollgate_revisions_1")
            .await;
    })
    .await;
}

fn table_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Rule => "tollgate_rules",
        Kind::Tier => "tollgate_tiers",
        Kind::Client => "tollgate_clients",
        Kind::Override => "tollgate_overrides",
        Kind::Whitelist => "tollgate_whitelist",
        Kind::Blacklist => "tollgate_blacklist",
        Kind::ApiKey => "tollgate_api_keys",
        Kind::Token => "tollgate_tokens",
        Kind::Ban => "tollgate_bans",
    }
}
