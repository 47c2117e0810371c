//! The decision log has bounds: in all, and so that a flood of one client leaves the records of others; and it
//! is not in the file of the catalog.

use std::fs;

use serde_json::json;
use tollgate_catalog::{
    Catalog, ClientFilter, DecisionAction, DecisionFilter, Logged, LoggedDecision, NEWEST_SCHEMA,
};

use crate::desk::{NOW, TestCatalog, later};
use crate::place::{Place, everywhere};

const MAX_BYTES: u64 = 4 << 20;

/// A refusal with texts that are as long as the log takes them.
fn refusal(number: u64, client: &str) -> LoggedDecision {
    let body = json!({"endpoint": "/".repeat(256), "identifiers": {"x": "y".repeat(1_000)}});
    LoggedDecision {
        at: later(number),
        decision_id: format!("d00000001-r{number:x}"),
        action: DecisionAction::Refused,
        rule_id: Some("login".to_owned()),
        client: client.to_owned(),
        tenant: Some("acme".to_owned()),
        body: body.to_string(),
    }
}

async fn log(catalog: &Catalog, records: &[LoggedDecision]) {
    let logged = catalog.log_decisions(records, MAX_BYTES).await.expect("an answer");
    assert_eq!(logged, Logged::Written);
}

async fn count_of(catalog: &Catalog, client: &str) -> usize {
    let filter =
        DecisionFilter { client: Some(ClientFilter::any(client)), ..DecisionFilter::default() };
    catalog.decisions(&filter, None, 100_000).await.expect("a page").len()
}

/// The bytes that the log says it takes, and those of its file.
async fn size(place: &Place) -> (u64, u64) {
    let url = place.url().decision_log();
    let mut raw = place.raw_at(&url).await;
    let told = raw.texts("SELECT CAST(bytes AS TEXT) FROM tollgate_decision_total").await;
    let rows =
        raw.texts("SELECT CAST(coalesce(sum(bytes), 0) AS TEXT) FROM tollgate_decision_log").await;
    let clients = raw
        .texts("SELECT CAST(coalesce(sum(bytes), 0) AS TEXT) FROM tollgate_decision_clients")
        .await;
    assert_eq!((&told, &told), (&rows, &clients), "the figures are those of the rows");
    let file = url.file().map_or(0, |file| fs::metadata(file).expect("a file").len());
    (told[0].parse().expect("a number"), file)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_does_not_fill_the_disk() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let mut number = 0;
        for batch in 0..30 {
            let records: Vec<LoggedDecision> = (0..300)
                .map(|_| {
                    number += 1;
                    refusal(number, &format!("client {number}"))
                })
                .collect();
            log(&desk.catalog, &records).await;
            let (told, file) = size(place).await;
            assert!(told <= MAX_BYTES, "{told} bytes after {batch} batches");
            assert!(file <= MAX_BYTES * 5 / 4, "{file} bytes after {batch} batches");
            println!("{batch}: {told} bytes told, {file} in the file");
        }
        let kept = desk.catalog.decisions(&DecisionFilter::default(), None, 100_000).await;
        let kept = kept.expect("a page");
        assert!(kept.len() > 1_000, "{} are left", kept.len());
        let newest: Vec<_> = kept.iter().map(|record| record.at).collect();
        let expected: Vec<_> = (0..kept.len() as u64).map(|at| later(number - at)).collect();
        assert_eq!(newest, expected, "the oldest go first");
        // Whatever is forgotten makes room.
        while desk.catalog.forget_decisions(later(1 << 30), 500).await.expect("done") > 0 {}
        assert_eq!(size(place).await.0, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_client_does_not_push_out_others() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let early: Vec<LoggedDecision> =
            (0..100).map(|number| refusal(number, &format!("client {}", number % 20))).collect();
        log(&desk.catalog, &early).await;
        for batch in 1..30 {
            let numbers = batch * 300..(batch + 1) * 300;
            let flood: Vec<LoggedDecision> =
                numbers.map(|number| refusal(number, "mallory")).collect();
            log(&desk.catalog, &flood).await;
        }
        assert!(count_of(&desk.catalog, "mallory").await > 1_000);
        for client in 0..20 {
            assert_eq!(count_of(&desk.catalog, &format!("client {client}")).await, 5);
        }
        assert!(size(place).await.0 <= MAX_BYTES);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_nodes_share_one_bound() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let nodes: Vec<Catalog> = (0..3).map(|_| place.catalog()).collect();
        let writing = nodes.iter().zip(0_u64..).map(|(node, at)| async move {
            for batch in 0_u64..10 {
                let number = |row: u64| 1_000_000 * at + 200 * batch + row;
                let records: Vec<LoggedDecision> = (0..200)
                    .map(|row| refusal(number(row), &format!("client {}", row % 7)))
                    .collect();
                log(node, &records).await;
            }
        });
        let writing: Vec<_> = writing.collect();
        let mut writing = writing.into_iter();
        if let (Some(a), Some(b), Some(c)) = (writing.next(), writing.next(), writing.next()) {
            tokio::join!(a, b, c);
        }
        assert!(size(place).await.0 <= MAX_BYTES);
        assert!(count_of(&desk.catalog, "client 3").await > 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_of_earlier_versions_are_read_and_moved() {
    everywhere(async |place| {
        let catalog = place.catalog();
        catalog.migrate_to(5, NOW).await.expect("tables");
        let rows: Vec<String> = (0..1_200)
            .map(|at| format!("({}, 'd{at}', 'refused', 'ann', '{{}}')", 1_000 + at))
            .collect();
        let rows = rows.join(", ");
        let sql = format!(
            "INSERT INTO tollgate_decisions (decided_at, decision_id, action, client, body) VALUES {rows}"
        );
        place.raw().await.run(&sql).await;
        let desk = TestCatalog::open(place).await;
        assert_eq!(desk.catalog.schema_version().await.expect("a version"), NEWEST_SCHEMA);
        log(&desk.catalog, &[refusal(7, "ann")]).await;
        let ids = async || {
            let found = desk.catalog.decisions(&DecisionFilter::default(), None, 2_000).await;
            let ids = found.expect("a page").into_iter().map(|record| record.decision_id);
            ids.collect::<Vec<String>>()
        };
        let before = ids().await;
        assert_eq!((before.len(), before[1].as_str()), (1_201, "d1199"));
        let mut moved = Vec::new();
        while let step @ 1.. =
            desk.catalog.move_earlier_decisions(500, MAX_BYTES).await.expect("moved")
        {
            moved.push(step);
            assert_eq!(ids().await, before, "nothing is missing meanwhile");
        }
        assert_eq!(moved, [500, 500, 200]);
        let left = place.raw().await.texts("SELECT decision_id FROM tollgate_decisions").await;
        assert_eq!(left, [""; 0]);
        assert_eq!(ids().await, before);
    })
    .await;
}
