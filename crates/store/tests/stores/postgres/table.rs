//! The table: who creates it, which rows stay, and which permissions it needs.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_core::{Algorithm, Charge, Key, Micros, Quota, Timestamp};
use tollgate_store::postgres::PostgresStore;
use tollgate_store::{RemoteSettings, Store as _};
use tollgate_testbed::{Postgres, until};

use crate::postgres::{AGES, charge, key, limit, one, patient};

const COUNT: &str = "SELECT count(*) FROM tollgate_counters";

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_together_make_one_table() {
    let postgres = Postgres::start();
    let mut nodes = JoinSet::new();
    for _ in 0..4 {
        let node = patient(&postgres.url());
        nodes.spawn(async move { charge(&node, "a", &limit(Algorithm::Gcra, 2)).await });
    }
    let passed = nodes.join_all().await.into_iter();
    let passed = passed.filter(|settled| settled.as_ref().expect("an answer").passed).count();
    assert_eq!(passed, 2);
    assert_eq!(postgres.query("SELECT count(*) FROM tollgate_counters_migrations"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_dropped_is_made_again() {
    let postgres = Postgres::start();
    let store = patient(&postgres.url());
    let once = limit(Algorithm::FixedWindow, 1);
    for _ in 0..3 {
        assert!(charge(&store, "a", &once).await.expect("an answer").passed);
        assert!(!charge(&store, "a", &once).await.expect("an answer").passed);
        postgres.query("DROP TABLE tollgate_counters, tollgate_counters_migrations");
    }
    assert_eq!(store.status()[0].failures, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_without_create_permission_can_use_the_tables() {
    let postgres = Postgres::start();
    charge(&patient(&postgres.url()), "a", &limit(Algorithm::Gcra, 1)).await.expect("an answer");
    postgres.query(
        "CREATE ROLE clerk LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC;
         GRANT SELECT ON tollgate_counters_migrations TO clerk;
         GRANT SELECT, INSERT, UPDATE, DELETE ON tollgate_counters TO clerk",
    );
    let store = patient(&postgres.url().replace("postgres@", "clerk@"));
    let settled = charge(&store, "a", &limit(Algorithm::Gcra, 1)).await.expect("an answer");
    assert!(!settled.passed);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_expired_rows_are_swept() {
    let postgres = Postgres::start();
    let store = Arc::new(patient(&postgres.url()));
    let moment = Quota::new(Algorithm::TokenBucket, 1, Micros::from_millis(1));
    let moment = moment.compile().expect("a valid quota");
    let year = limit(Algorithm::TokenBucket, 10);
    // More than one step of the sweeper, and some to stay in each page.
    let names: Vec<String> = (0..4_000).map(|number| format!("client {number}")).collect();
    let charges: Vec<[Charge<'_>; 1]> = names
        .iter()
        .enumerate()
        .map(|(number, name)| [one(name, if number % 40 == 0 { &year } else { &moment })])
        .collect();
    let requests: Vec<&[Charge<'_>]> = charges.iter().map(<[Charge<'_>; 1]>::as_slice).collect();
    for settled in store.settle_batch(&requests, Timestamp::EPOCH).await {
        assert!(settled.expect("an answer").passed);
    }
    let counters = || postgres.query(COUNT);
    until("a table without what has expired", || (counters() == "100").then_some(()));
    for name in names.iter().step_by(40) {
        assert!(store.state_text(&key(name)).await.is_some(), "{name}");
    }

    let forgotten: Vec<_> = names.iter().step_by(80).map(|name| key(name)).collect();
    store.reset(&forgotten).await.expect("an answer");
    assert_eq!(store.state_text(&forgotten[0]).await, None);
    until("a table without what was reset", || (counters() == "50").then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_changes_nothing_leaves_no_row() {
    let postgres = Postgres::start();
    let store = patient(&postgres.url());
    let (none, one_unit) = (limit(Algorithm::Gcra, 0), limit(Algorithm::Gcra, 1));
    let look = [Charge { cost: 0, ..one("looked at", &one_unit) }];
    let too_much = [Charge { cost: 2, ..one("refused", &one_unit) }, one("not charged", &one_unit)];
    for charges in [&look[..], &too_much, &[one("blocked", &none)], &[]] {
        store.settle(charges, Timestamp::EPOCH).await.expect("an answer");
    }
    store.reset(&[key("unknown")]).await.expect("an answer");
    assert_eq!(postgres.query(COUNT), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn charges_stay_within_their_page() {
    let postgres = Postgres::start();
    let store = patient(&postgres.url());
    let large = limit(Algorithm::TokenBucket, 1_000_000);
    for _ in 0..300 {
        charge(&store, "often", &large).await.expect("an answer");
    }
    let pages = "SELECT pg_relation_size('tollgate_counters') / current_setting('block_size')::int";
    assert_eq!(postgres.query(pages), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_read_costs_its_counter_alone() {
    let postgres = Postgres::start();
    let settings = RemoteSettings { failures: 1, deadline: AGES, ..RemoteSettings::default() };
    let store = PostgresStore::connect(&postgres.url(), settings).expect("a valid URL");
    let rows = [
        "repeat('9', 64 << 20)",
        "'f:31622400000000:1:99999999999999999999999999'",
        "'f:31622400000000:1:1:1'",
        "'once x'",
        "E'\\n\\x01'",
    ];
    for (algorithm, row) in Algorithm::ALL.into_iter().flat_map(|one| rows.map(|row| (one, row))) {
        let two = limit(algorithm, 2);
        let spoiled = Charge { key: Key { rule: "spoiled", ..key(row) }, ..one("", &two) };
        let requests = [&[spoiled][..], &[one(row, &two)]];
        let settle = async || {
            let settled = store.settle_batch(&requests, Timestamp::EPOCH).await;
            let left = settled.into_iter().map(|one| one.expect("an answer").results[0].report);
            left.map(|report| report.remaining).collect::<Vec<_>>()
        };
        assert_eq!(settle().await, [1, 1], "{algorithm:?}");
        postgres.query(&format!(
            "UPDATE tollgate_counters SET state = {row}, expires_at = 9223372036854775807
             WHERE name LIKE '%:spoiled'"
        ));
        assert_eq!(settle().await, [1, 0], "{algorithm:?} {row}");
        let forever = "SELECT count(*) FROM tollgate_counters WHERE expires_at > 9000000000000000";
        assert_eq!(postgres.query(forever), "0", "{algorithm:?} {row}");
        postgres.query("DELETE FROM tollgate_counters");
    }
    assert_eq!(store.status()[0].failures, 0);
}
