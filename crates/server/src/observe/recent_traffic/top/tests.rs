//! Tests of the top lists: windows, tenants, and Zipf traffic against exact counts.

use std::collections::HashMap;

use super::*;
use crate::observe::recent_traffic::record::sized;

/// Counts requests of users at these seconds, with marks.
fn count(top: &mut Top, second: u64, tenant: &str, user: &str, is_refused: bool) {
    let mut client = vec![tag::USER];
    sized(&mut client, user.as_bytes());
    if !tenant.is_empty() {
        client.push(tag::TENANT);
        sized(&mut client, tenant.as_bytes());
    }
    let mut place = vec![tag::PATH];
    sized(&mut place, b"/orders");
    place.push(tag::RULE);
    sized(&mut place, b"per_user");
    let mut bytes = vec![u8::from(is_refused), 0, 0, 0];
    for length in [client.len(), place.len()] {
        bytes.extend_from_slice(&u16::try_from(length).expect("a short run").to_le_bytes());
    }
    bytes.extend_from_slice(&(second * 1_000_000).to_le_bytes());
    bytes.extend_from_slice(&1_u64.to_le_bytes());
    bytes.extend([client.as_slice(), &place].concat());
    let (record, _) = TapeRecord::read(&bytes).expect("a record");
    top.count(&record, &ClientKey::new(record.client), 0);
}

fn ask(window_seconds: u64, limit: usize) -> TopAsk {
    TopAsk { window_seconds, limit, ..TopAsk::default() }
}

fn names(list: &RankedList) -> Vec<(&str, u64)> {
    list.entries.iter().map(|entry| (entry.name.as_str(), entry.count)).collect()
}

#[test]
fn only_the_window_counts() {
    let check = |counted: &[(u64, &str)], window: u64, expected: &[(&str, u64)]| {
        let mut top = Top::default();
        for (second, user) in counted {
            count(&mut top, *second, "", user, true);
        }
        assert!(top.slices.len() <= SLICES, "{}", top.slices.len());
        let figures = top.figures(&ask(window, 10), Timestamp::from_secs(1_000), 0);
        assert_eq!(names(&figures.refused), expected, "{counted:?}");
        assert_eq!(names(&figures.busiest), expected, "{counted:?}");
        assert_eq!(figures.refused.may_lack, 0);
        assert_eq!(names(&figures.would_refuse), []);
    };
    let spread = [(500, "old"), (930, "a"), (945, "b"), (946, "a"), (999, "a"), (1_000, "c")];
    check(&[], 60, &[]);
    check(&spread, 60, &[("a", 2), ("b", 1), ("c", 1)]);
    check(&spread, 1, &[("a", 1), ("c", 1)]);
    check(&spread, 300, &[("a", 3), ("b", 1), ("c", 1)]);
    check(&spread, 9_999, &[("a", 3), ("b", 1), ("c", 1)]);
    // A clock that is set back.
    check(&[(995, "a"), (100, "b"), (996, "a")], 60, &[("a", 2), ("b", 1)]);
    let long: Vec<(u64, &str)> = (0..1_000).map(|second| (second, "a")).collect();
    check(&long, 300, &[("a", 300)]);
}

#[test]
fn clients_of_tenants_are_apart_and_rules_are_those_of_all_tenants() {
    let mut top = Top::default();
    for (tenant, user, times) in [("acme", "u", 3), ("globex", "u", 2), ("acme", "v", 1)] {
        (0..times).for_each(|_| count(&mut top, 999, tenant, user, true));
    }
    let now = Timestamp::from_secs(1_000);
    let figures = top.figures(&ask(60, 10), now, 0);
    let entry = |tenant: &str, name: &str, count| RankedEntry {
        name: name.to_owned(),
        tenant: Some(tenant.to_owned()),
        rule_id: Some("per_user".to_owned()),
        used_percent: None,
        count,
    };
    let expected = [entry("acme", "u", 3), entry("globex", "u", 2), entry("acme", "v", 1)];
    assert_eq!(figures.refused.entries, expected);
    let by_rule = TopAsk { by: RankedBy::Rule, ..ask(60, 10) };
    assert_eq!(names(&top.figures(&by_rule, now, 0).busiest), [("per_user", 6)]);
    let own = TopAsk { tenant: Some("globex".to_owned()), ..by_rule };
    assert_eq!(names(&top.figures(&own, now, 0).refused), [("per_user", 2)]);
    let own = TopAsk { by: RankedBy::Client, ..own };
    assert_eq!(names(&top.figures(&own, now, 0).refused), [("u", 2)]);
}

#[test]
fn lost_records_are_reported() {
    let mut top = Top::default();
    count(&mut top, 999, "", "u", false);
    let lacking = |lost| top.figures(&ask(60, 10), Timestamp::from_secs(1_000), lost).busiest;
    assert_eq!((lacking(0).may_lack, lacking(7).may_lack), (0, 7));
}

/// Numbers below `names`, of which each is drawn in proportion to `1 / (number + 1) ^ skew`.
struct Zipf {
    sums: Vec<f64>,
    state: u64,
}

impl Zipf {
    fn new(names: u32, skew: f64, seed: u64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=names).map(|rank| {
            sum += f64::from(rank).powf(-skew);
            sum
        });
        Self { sums: sums.collect(), state: seed }
    }

    fn draw(&mut self) -> usize {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        let wanted = share * self.sums.last().copied().unwrap_or_default();
        self.sums.partition_point(|sum| *sum < wanted)
    }
}

/// On Zipf traffic over three nodes, the true top 20 are among the 25 that are shown; and no count is too high, nor too
/// low by more than is said.
#[test]
fn the_true_top_20_of_three_nodes_are_within_the_25_that_are_shown() {
    for (skew, seed) in [(1.3, 1), (1.0, 2), (0.8, 3)] {
        let mut zipf = Zipf::new(100_000, skew, seed);
        let mut nodes = [Top::default(), Top::default(), Top::default()];
        let mut exact: HashMap<usize, u64> = HashMap::new();
        // A minute of 5,000 requests a second.
        for request in 0..300_000_u64 {
            let name = zipf.draw();
            let node = &mut nodes[(request % 3) as usize];
            count(
                node,
                940 + request / 5_000,
                "",
                &format!("client-{name}"),
                name.is_multiple_of(7),
            );
            *exact.entry(name).or_default() += 1;
        }
        let mut sum = RankingSum::default();
        for node in &nodes {
            let list = node.figures(&ask(60, 100), Timestamp::from_secs(1_000), 0).busiest;
            sum.may_lack += list.may_lack + list.next;
            list.entries.into_iter().for_each(|entry| sum.add(entry));
        }
        let shown = sum.finish(25);
        let mut true_top: Vec<(usize, u64)> = exact.iter().map(|(a, b)| (*a, *b)).collect();
        true_top.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (name, count) in true_top.iter().take(20) {
            let name = format!("client-{name}");
            let found = shown.entries.iter().find(|entry| entry.name == name);
            let told = found.unwrap_or_else(|| panic!("skew {skew}: {name} is missing")).count;
            assert!(told <= *count && *count <= told + shown.may_lack, "{name}: {told}, {count}");
        }
    }
}
