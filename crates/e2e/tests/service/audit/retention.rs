//! Old records are deleted, a few at a time, and newer ones stay.

use serde_json::json;
use tollgate::{Clock as _, Micros, SystemClock, Timestamp};
use tollgate_catalog::{
    Author, DecisionAction, Edit, Entry, Expect, Intent, Kind, LoggedDecision, Seed,
};

use super::{DECISIONS, catalog, records, rule, wait_for};
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;

const DAY: Micros = Micros::from_secs(24 * 60 * 60);

fn ago(days: u64) -> Timestamp {
    SystemClock.now().minus(Micros::from_secs(days * DAY.get() / 1_000_000))
}

fn decision(number: usize, at: Timestamp) -> LoggedDecision {
    LoggedDecision {
        at: Timestamp::from_micros(at.as_micros() + number as u64),
        decision_id: format!("d00000001-r{number:x}"),
        action: DecisionAction::Refused,
        rule_id: None,
        client: "ann".to_owned(),
        tenant: None,
        body: "{}".to_owned(),
    }
}

#[test]
fn records_are_deleted_after_the_retention_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalog = catalog(folder.path());
    wait_for(async {
        let author = Author::program("a test");
        catalog.open(Seed::default(), ago(9), true).await.expect("a catalog");
        for (limit, days) in [(1, 8), (2, 4), (3, 2), (4, 1)] {
            let text = rule("r", limit).to_string();
            let entry = Entry::parse(Kind::Rule, &text).expect("a rule");
            let edits = vec![Edit::Put { entry, expect: Expect::Anything }];
            let written = catalog.write(&author, Intent::Edits(edits), ago(days), false).await;
            assert_eq!(written.expect("written").changes.len(), 1);
        }
        // More than one step deletes.
        let old: Vec<_> = (0..2_000).map(|number| decision(number, ago(4))).collect();
        catalog.log_decisions(&old, u64::MAX).await.expect("kept");
        let new: Vec<_> = (2_000..2_003).map(|number| decision(number, ago(2))).collect();
        catalog.log_decisions(&new, u64::MAX).await.expect("kept");
    });
    let setup = Setup { settings: "audit: {keep_days: 3}", ..Setup::default() };
    let server = Server::start_in(folder, &setup);
    until("an end of old decisions", || {
        let left = records(&server, &format!("{DECISIONS}?limit=1000"));
        (left.len() <= 3).then_some(())
    });
    assert_eq!(records(&server, DECISIONS).len(), 3, "newer ones stay");
    let limits = until("an end of old changes", || {
        let left = records(&server, "/api/v1/audit?kind=rule&entry=r");
        let limits: Vec<_> = left.iter().map(|record| record["becomes"]["limit"].clone()).collect();
        (limits.len() <= 2).then_some(limits)
    });
    assert_eq!(limits, [json!(4), json!(3)]);
    assert_eq!(server.get_as_admin("/api/v1/rules/r").json()["limit"], 4, "rules stay");
}
