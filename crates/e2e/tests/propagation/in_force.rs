//! A change is in force on every node within a second, as a whole, and no request fails meanwhile.

use tollgate_testbed::{Postgres, Redis};

use crate::fleet::{Fleet, SLACK, SOON, rounds};

#[test]
fn every_node_has_each_revision_within_a_second() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let fleet = Fleet::start(2, &postgres.url(), &redis.url());
    let changes = rounds(20, 500);
    let asked = fleet.under_load(|| {
        for round in 0..changes {
            let limit = 2_000_000 + round as u64;
            fleet.write(round % 2, limit).expect_ok();
            let took = fleet.until_all_have(limit);
            assert!(took < SOON + SLACK, "round {round}: {took:?}");
        }
    });
    assert!(asked > changes, "{asked} requests");
}

/// Without notifications of PostgreSQL or Redis, polling is enough.
#[test]
fn nodes_on_one_file_notice_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalog = format!("sqlite:{}", folder.path().join("catalog.db").display());
    let fleet = Fleet::start(2, &catalog, "memory:");
    for round in 0..6 {
        let limit = 3_000_000 + round;
        fleet.write(round as usize % 2, limit).expect_ok();
        let took = fleet.until_all_have(limit);
        assert!(took < SOON + SLACK, "round {round}: {took:?}");
    }
}

#[test]
fn a_node_that_takes_a_change_has_it_in_force_when_it_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalog = format!("sqlite:{}", folder.path().join("catalog.db").display());
    let fleet = Fleet::start(1, &catalog, "memory:");
    for limit in 4_000_000..4_000_050 {
        fleet.write(0, limit).expect_ok();
        assert_eq!(crate::fleet::limit_at(&fleet.nodes[0]), limit);
    }
}
