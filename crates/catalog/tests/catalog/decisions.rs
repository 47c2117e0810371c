//! Which requests were refused: kept once, found by every filter, page by page, and forgotten in time;
//! and writes of rules do not wait for it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use tollgate_catalog::{
    Catalog, ClientFilter, DecisionAction, DecisionFilter, DecisionPlace, Kind, LoggedDecision,
};
use tollgate_core::Timestamp;

use crate::desk::{NOW, TestCatalog, later, put, rule};
use crate::place::{Place, everywhere};

fn decision(number: u64, action: DecisionAction, client: &str, rule_id: &str) -> LoggedDecision {
    LoggedDecision {
        at: later(number),
        decision_id: format!("d00000001-r{number:x}"),
        action,
        rule_id: Some(rule_id.to_owned()).filter(|rule_id| !rule_id.is_empty()),
        client: client.to_owned(),
        tenant: None,
        body: json!({"cost": number}).to_string(),
    }
}

fn numbers(records: &[LoggedDecision]) -> Vec<u64> {
    let number = |record: &LoggedDecision| record.at.since(NOW).get() / 1_000_000;
    records.iter().map(number).collect()
}

/// All decisions that are wanted, read so many at a time.
async fn read(catalog: &Catalog, filter: &DecisionFilter, limit: usize) -> Vec<LoggedDecision> {
    let (mut all, mut before): (_, Option<DecisionPlace>) = (Vec::new(), None);
    loop {
        let page = catalog.decisions(filter, before.as_ref(), limit).await.expect("a page");
        assert!(page.len() <= limit, "{} at a time", page.len());
        let Some(last) = page.last() else { return all };
        before = Some((last.at, last.decision_id.clone()));
        all.extend(page);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_found_by_every_filter() {
    use DecisionAction::{Allowed, Denied, Refused, Throttled};
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let mut records = vec![
            decision(0, Refused, "alice", "per_user"),
            decision(1, Allowed, "alice", "per_user"),
            decision(2, Denied, "bob", ""),
            decision(3, Throttled, "alice", "per_ip"),
            decision(4, Refused, "bob", "per_ip"),
        ];
        records[4].tenant = Some("acme".to_owned());
        desk.catalog.log_decisions(&records, u64::MAX).await.expect("kept");
        records.reverse();
        let any = DecisionFilter::default;
        assert_eq!(read(&desk.catalog, &any(), 100).await, records);
        let check = async |filter: DecisionFilter, expected: &[u64]| {
            for limit in [1, 2, 100] {
                let found = read(&desk.catalog, &filter, limit).await;
                assert_eq!(numbers(&found), expected, "{limit} at a time, {filter:?}");
            }
        };
        let text = |text: &str| Some(text.to_owned());
        let client = |name: &str| Some(ClientFilter::any(name));
        check(any(), &[4, 3, 2, 1, 0]).await;
        let id = Some(records[1].decision_id.clone());
        check(DecisionFilter { decision_id: id, ..any() }, &[3]).await;
        check(DecisionFilter { decision_id: text("d"), ..any() }, &[]).await;
        check(DecisionFilter { client: client("alice"), ..any() }, &[3, 1, 0]).await;
        check(DecisionFilter { client: client("alic"), ..any() }, &[]).await;
        check(DecisionFilter { rule_id: text("per_ip"), ..any() }, &[4, 3]).await;
        check(DecisionFilter { actions: vec![Refused], ..any() }, &[4, 0]).await;
        check(DecisionFilter { actions: vec![Denied], ..any() }, &[2]).await;
        check(DecisionFilter { actions: vec![Denied, Refused], ..any() }, &[4, 2, 0]).await;
        check(DecisionFilter { tenant: text("acme"), ..any() }, &[4]).await;
        check(DecisionFilter { since: Some(later(3)), ..any() }, &[4, 3]).await;
        check(DecisionFilter { until: Some(later(3)), ..any() }, &[2, 1, 0]).await;
        let some = DecisionFilter { since: Some(later(1)), until: Some(later(4)), ..any() };
        check(some.clone(), &[3, 2, 1]).await;
        check(DecisionFilter { client: client("alice"), ..some }, &[3, 1]).await;
        let refused = DecisionFilter { actions: vec![Refused], ..any() };
        check(DecisionFilter { rule_id: text("per_user"), ..refused }, &[0]).await;
    })
    .await;
}

/// A client used to be found by its first identifier only: the refusals of an address were not, if they had a user.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_found_by_each_of_its_identifiers() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let of = |number: u64, client: &str, identifiers: serde_json::Value| {
            let body = json!({"cost": 1, "identifiers": identifiers}).to_string();
            LoggedDecision { body, ..decision(number, DecisionAction::Refused, client, "r") }
        };
        let mut records = vec![
            of(
                0,
                "eve",
                json!({"user_id": "eve", "ip": "192.0.2.7", "api_key": "sha256:8254c329a928"}),
            ),
            of(1, "192.0.2.7", json!({"ip": "192.0.2.7"})),
            of(2, "eve", json!({"tenant": "eve"})),
            of(3, "192.0.2.7", json!({"user_id": "192.0.2.7"})),
            of(4, "x", json!({"user_id": "x", "header:x": "\"ip\":\"192.0.2.7\""})),
        ];
        records[2].tenant = Some("eve".to_owned());
        desk.catalog.log_decisions(&records, u64::MAX).await.expect("kept");
        let check = async |kind: Option<&str>, value: &str, expected: &[u64]| {
            let client = ClientFilter { kind: kind.map(str::to_owned), value: value.to_owned() };
            let filter = DecisionFilter { client: Some(client), ..DecisionFilter::default() };
            for limit in [1, 2, 100] {
                let found = read(&desk.catalog, &filter, limit).await;
                assert_eq!(numbers(&found), expected, "{limit} at a time, {filter:?}");
            }
        };
        check(None, "eve", &[2, 0]).await;
        check(Some("user_id"), "eve", &[0]).await;
        check(Some("tenant"), "eve", &[2]).await;
        check(None, "192.0.2.7", &[3, 1, 0]).await;
        check(Some("ip"), "192.0.2.7", &[1, 0]).await;
        check(Some("user_id"), "192.0.2.7", &[3]).await;
        check(None, "sha256:8254c329a928", &[0]).await;
        check(Some("api_key"), "sha256:8254c329a928", &[0]).await;
        check(Some("api_key"), "eve", &[]).await;
    })
    .await;
}

/// A decision used to be found by the first of several shadow rules only.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_found_by_every_rule_that_would_have_refused_it() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let of = |number: u64, client: &str, rule_id: &str, others: &[&str]| {
            let body = json!({"cost": 1, "also_would_refuse": others}).to_string();
            let decision = decision(number, DecisionAction::WouldRefuse, client, rule_id);
            LoggedDecision { body, ..decision }
        };
        let records = [
            of(0, "ann", "watch", &["api~candidate", "third"]),
            of(1, "ann", "api~candidate", &[]),
            of(2, "bob", "watch", &["api~candidate"]),
            of(3, "bob", "watch", &[]),
            of(4, "ann", "api~candidate", &["api~candidate"]),
        ];
        // What is logged twice is there once.
        for _ in 0..2 {
            desk.catalog.log_decisions(&records, u64::MAX).await.expect("kept");
        }
        let check = async |rule_id: &str, client: Option<&str>, expected: &[u64]| {
            let filter = DecisionFilter {
                rule_id: Some(rule_id.to_owned()),
                client: client.map(ClientFilter::any),
                ..DecisionFilter::default()
            };
            for limit in [1, 2, 100] {
                let found = read(&desk.catalog, &filter, limit).await;
                assert_eq!(numbers(&found), expected, "{limit} at a time, {filter:?}");
            }
        };
        check("watch", None, &[3, 2, 0]).await;
        check("api~candidate", None, &[4, 2, 1, 0]).await;
        check("api~candidate", Some("ann"), &[4, 1, 0]).await;
        check("third", None, &[0]).await;
        check("third", Some("bob"), &[]).await;
        // The further rules are removed with their decisions.
        desk.catalog.forget_decisions(later(2), 100).await.expect("done");
        check("third", None, &[]).await;
        check("api~candidate", None, &[4, 2]).await;
        let mut raw = place.raw_at(&place.url().decision_log()).await;
        let rows = raw.texts("SELECT CAST(count(*) AS TEXT) FROM tollgate_decision_rules").await;
        assert_eq!(rows, ["2"]);
    })
    .await;
}

/// The file of the log has no version: what is missing in that of an earlier version is added.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_file_of_an_earlier_version_is_searched_by_every_identifier() {
    let place = Place::file();
    let by_ip = |number: u64| {
        let body = json!({"identifiers": {"user_id": "eve", "ip": "192.0.2.7"}}).to_string();
        LoggedDecision { body, ..decision(number, DecisionAction::Refused, "eve", "r") }
    };
    let desk = TestCatalog::open(&place).await;
    desk.catalog.log_decisions(&[by_ip(0)], u64::MAX).await.expect("kept");
    drop(desk);
    let mut raw = place.raw_at(&place.url().decision_log()).await;
    for sql in [
        "DROP TABLE tollgate_decision_rules",
        "DROP INDEX tollgate_decision_log_by_ip",
        "DROP INDEX tollgate_decision_log_by_api_key",
        "ALTER TABLE tollgate_decision_log DROP COLUMN ip",
        "ALTER TABLE tollgate_decision_log DROP COLUMN api_key",
    ] {
        raw.run(sql).await;
    }
    let catalog = place.catalog();
    catalog.log_decisions(&[by_ip(1)], u64::MAX).await.expect("kept");
    let check = async |client: &str, expected: &[u64]| {
        let client = Some(ClientFilter::any(client));
        let filter = DecisionFilter { client, ..DecisionFilter::default() };
        assert_eq!(numbers(&read(&catalog, &filter, 10).await), expected);
    };
    check("192.0.2.7", &[1]).await;
    check("eve", &[1, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_handed_in_twice_is_kept_once() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let records: Vec<LoggedDecision> =
            (0..512).map(|it| decision(it, DecisionAction::Refused, "a", "r")).collect();
        desk.catalog.log_decisions(&records[..300], u64::MAX).await.expect("kept");
        // As after a lost response: half of these are logged already.
        desk.catalog.log_decisions(&records, u64::MAX).await.expect("kept");
        desk.catalog.log_decisions(&[], u64::MAX).await.expect("nothing to do");
        let kept = read(&desk.catalog, &DecisionFilter::default(), 1_000).await;
        assert_eq!(numbers(&kept), (0..512).rev().collect::<Vec<u64>>());
        assert_eq!(desk.version().await.revision.number, 0, "no revision is made");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_clients_send_can_be_kept() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let sent = ["\0", "a\0b", "'; DROP TABLE tollgate_decisions; --", "é\u{1f600}", "", "$1"];
        for (number, client) in (0..).zip(sent) {
            let mut record = decision(number, DecisionAction::Refused, client, client);
            record.tenant = Some(client.to_owned());
            desk.catalog.log_decisions(&[record], u64::MAX).await.expect("kept");
            let text = || Some(client.to_owned());
            let mut filter = DecisionFilter { tenant: text(), ..<_>::default() };
            filter.client = Some(ClientFilter::any(client));
            filter.rule_id = text().filter(|text| !text.is_empty());
            let found = read(&desk.catalog, &filter, 10).await;
            assert_eq!(numbers(&found), [number], "{client:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_are_forgotten_first_and_a_few_at_a_time() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let mut records: Vec<LoggedDecision> =
            (0..20).map(|it| decision(it, DecisionAction::Refused, "a", "r")).collect();
        // A batch of requests is judged at one moment.
        for record in &mut records[5..10] {
            record.at = later(5);
        }
        desk.catalog.log_decisions(&records, u64::MAX).await.expect("kept");
        let check = async |end: u64, most: u64, forgotten: u64, left: usize| {
            let count = desk.catalog.forget_decisions(later(end), most).await.expect("done");
            let kept = read(&desk.catalog, &DecisionFilter::default(), 100).await;
            assert_eq!((count, kept.len()), (forgotten, left), "before {end}, {most} at most");
        };
        check(0, 100, 0, 20).await;
        check(20, 3, 3, 17).await;
        check(4, 100, 1, 16).await;
        check(20, 3, 6, 10).await;
        check(15, 100, 5, 5).await;
        check(15, 100, 0, 5).await;
        check(1_000, 100, 5, 0).await;
        check(1_000, 100, 0, 0).await;
    })
    .await;
}

/// Rules can be changed while the log is written as fast as it can be, and the other way round. A write
/// that waited too long would fail.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_rules_do_not_wait_for_the_log() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let logged = AtomicU64::new(0);
        let logging = async {
            for batch in 0.. {
                let numbers = batch * 500..(batch + 1) * 500;
                let records: Vec<LoggedDecision> = numbers
                    .map(|number| decision(number, DecisionAction::Refused, "a", "r"))
                    .collect();
                desk.catalog.log_decisions(&records, u64::MAX).await.expect("kept");
                logged.store(batch + 1, Relaxed);
            }
        };
        let changing = async {
            for number in 0.. {
                desk.write(vec![put(Kind::Rule, &rule(&format!("r{number}"), &json!({})))]).await;
                if number > 20 && logged.load(Relaxed) > 2 {
                    break;
                }
            }
        };
        tokio::select! {
            () = logging => unreachable!("it goes on for ever"),
            () = changing => {}
        }
        let kept = desk.catalog.decisions(&DecisionFilter::default(), None, 2_000).await;
        assert!(kept.expect("a page").len() >= 1_500, "both went on");
    })
    .await;
}

fn some_decision() -> impl Strategy<Value = LoggedDecision> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let parts = (0_u64..30, 0_u64..50, 0_usize..4, name(), prop::option::of(name()));
    (parts, prop::option::of(name())).prop_map(|((at, id, action, client, rule_id), tenant)| {
        // What has the same id has the same rules.
        let others: &[&str] = [&[][..], &["a"], &["b", "c"]][usize::try_from(id % 3).unwrap_or(0)];
        LoggedDecision {
            at: Timestamp::from_secs(at),
            decision_id: format!("d{id}"),
            action: DecisionAction::ALL[action],
            rule_id: rule_id.map(str::to_owned),
            client: client.to_owned(),
            tenant: tenant.map(str::to_owned),
            body: json!({"also_would_refuse": others}).to_string(),
        }
    })
}

fn some_filter() -> impl Strategy<Value = DecisionFilter> {
    let name = || prop::option::of(prop::sample::select(vec!["a", "b", "x"]));
    let time = || prop::option::of(0_u64..30);
    let actions = prop::sample::subsequence(DecisionAction::ALL.to_vec(), 0..3);
    let parts = (name(), name(), name(), actions, time(), time());
    parts.prop_map(|(client, rule_id, tenant, actions, since, until)| DecisionFilter {
        client: client.map(ClientFilter::any),
        rule_id: rule_id.map(str::to_owned),
        tenant: tenant.map(str::to_owned),
        actions,
        since: since.map(Timestamp::from_secs),
        until: until.map(Timestamp::from_secs),
        ..DecisionFilter::default()
    })
}

/// The further rules of a decision.
fn others(record: &LoggedDecision) -> Vec<String> {
    let body: serde_json::Value = serde_json::from_str(&record.body).expect("JSON");
    serde_json::from_value(body["also_would_refuse"].clone()).expect("rules")
}

fn is_wanted(filter: &DecisionFilter, record: &LoggedDecision) -> bool {
    let DecisionFilter { decision_id, client, rule_id, tenant, actions, since, until } = filter;
    decision_id.as_ref().is_none_or(|id| *id == record.decision_id)
        && client.as_ref().is_none_or(|client| client.value == record.client)
        && rule_id.as_ref().is_none_or(|rule_id| {
            Some(rule_id) == record.rule_id.as_ref() || others(record).contains(rule_id)
        })
        && tenant.as_ref().is_none_or(|tenant| Some(tenant) == record.tenant.as_ref())
        && (actions.is_empty() || actions.contains(&record.action))
        && since.is_none_or(|since| record.at >= since)
        && until.is_none_or(|until| record.at < until)
}

/// Both databases find the same records as a scan of a list.
#[test]
fn any_log_is_read_like_a_list() {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let mut runner = TestRunner::new(Config::with_cases(8));
    let logs = prop::collection::vec(some_decision(), 0..150);
    let questions = prop::collection::vec((some_filter(), 1_usize..40), 1..20);
    let check = |(log, questions): (Vec<LoggedDecision>, Vec<(DecisionFilter, usize)>)| {
        let mut model: Vec<LoggedDecision> = Vec::new();
        for record in &log {
            let is_same =
                |it: &LoggedDecision| (it.at, &it.decision_id) == (record.at, &record.decision_id);
            if !model.iter().any(is_same) {
                model.push(record.clone());
            }
        }
        model.sort_by(|a, b| (b.at, &b.decision_id).cmp(&(a.at, &a.decision_id)));
        runtime.block_on(async {
            for place in [Place::file(), Place::database()] {
                let desk = TestCatalog::open(&place).await;
                desk.catalog.log_decisions(&log, u64::MAX).await.expect("kept");
                for (filter, limit) in &questions {
                    let found = read(&desk.catalog, filter, *limit).await;
                    let expected = model.iter().filter(|record| is_wanted(filter, record));
                    let expected: Vec<LoggedDecision> = expected.cloned().collect();
                    prop_assert_eq!(found, expected, "{:?}", filter);
                }
            }
            Ok(())
        })
    };
    runner.run(&(logs, questions), check).unwrap_or_else(|error| panic!("{error}"));
}
