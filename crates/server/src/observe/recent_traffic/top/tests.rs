//! Tests of the top lists: windows, tenants, and Zipf traffic against exact counts.

use super::*;
use crate::observe::fleet_figures::{SENT_ENTRIES, merge_top};
use crate::observe::recent_traffic::record::sized;

/// Counts requests of users at these seconds.
fn count(top: &mut Top, second: u64, tenant: &str, user: &str, is_refused: bool) {
    let mut bytes = record([user, tenant, "/orders"]);
    count_record(top, &mut bytes, second * 1_000_000, [u8::from(is_refused), 0]);
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

/// The record of a request of a user of a tenant at an endpoint.
fn record([user, tenant, endpoint]: [&str; 3]) -> Vec<u8> {
    let run = |fields: &[(u8, &str)]| -> Vec<u8> {
        let mut run = Vec::new();
        for (tag, text) in fields.iter().filter(|(_, text)| !text.is_empty()) {
            run.push(*tag);
            sized(&mut run, text.as_bytes());
        }
        run
    };
    let client = run(&[(tag::USER, user), (tag::TENANT, tenant)]);
    let place =
        run(&[(tag::PATH, endpoint), (tag::RULE, "per_user"), (tag::SHADOW, "per_user~candidate")]);
    let mut bytes = vec![0; 4];
    for length in [client.len(), place.len()] {
        bytes.extend_from_slice(&u16::try_from(length).expect("a short run").to_le_bytes());
    }
    bytes.extend([0; 16]);
    bytes.extend([client.as_slice(), &place].concat());
    bytes
}

/// Counts a record at a time, with an outcome and marks.
fn count_record(top: &mut Top, bytes: &mut [u8], micros: u64, outcome_and_marks: [u8; 2]) {
    bytes[..2].copy_from_slice(&outcome_and_marks);
    bytes[8..16].copy_from_slice(&micros.to_le_bytes());
    let (record, _) = TapeRecord::read(bytes).expect("a record");
    top.count(&record, &ClientKey::new(record.client), 0);
}

impl Top {
    /// The memory that the lists take, with all that they point to.
    fn bytes(&self) -> usize {
        let slices = self.slices.iter();
        let sketches = slices.flat_map(|slice| slice.sketches.iter().flatten()).map(Sketch::bytes);
        self.slices.capacity() * size_of::<Slice>() + sketches.sum::<usize>()
    }
}

/// The top lists of several nodes, put together as a node does it that is asked.
fn merged(nodes: &[Top], window_seconds: u64, limit: usize) -> TopFigures {
    let sent = ask(window_seconds, SENT_ENTRIES.max(limit));
    let figures = |node: &Top| node.figures(&sent, Timestamp::from_secs(1_000), 0);
    let lists: Vec<TopFigures> = nodes.iter().map(figures).collect();
    merge_top(&lists[0], &lists[1..], limit)
}

/// On Zipf traffic of 100,000 clients over three nodes, the true top 20 are among the 25 that are shown; no count is too
/// high, nor too low by more than is said; and the memory of a node does not depend on how many clients there are.
fn check_zipf(skew: f64, seed: u64, window: u64) {
    const REQUESTS: u64 = 1_000_000;
    const CLIENTS: u32 = 100_000;
    let mut zipf = Zipf::new(CLIENTS, skew, seed);
    let mut nodes = [Top::default(), Top::default(), Top::default()];
    let client = |name: u32| record([&format!("client-{name}"), "", "/orders"]);
    let mut records: Vec<Vec<u8>> = (0..CLIENTS).map(client).collect();
    let (mut exact, mut refused) = (vec![0_u64; records.len()], vec![0_u64; records.len()]);
    let began = (1_000 - window) * 1_000_000;
    for request in 0..REQUESTS {
        let name = zipf.draw();
        // Clients are refused in different shares, so that this order is another one.
        let is_refused = request.is_multiple_of(2 + (name as u64 * 7) % 5);
        exact[name] += 1;
        refused[name] += u64::from(is_refused);
        let at = began + request * window * 1_000_000 / REQUESTS;
        // One node is as busy as the two others.
        let node = &mut nodes[[0, 0, 1, 2][(request % 4) as usize]];
        count_record(node, &mut records[name], at, [u8::from(is_refused), 0]);
    }
    let shown = merged(&nodes, window, 25);
    for (list, exact) in [(&shown.busiest, &exact), (&shown.refused, &refused)] {
        let what = format!("skew {skew}, {window} s, may lack {}", list.may_lack);
        assert_eq!(list.entries.len(), 25, "{what}");
        let mut true_top: Vec<(usize, u64)> = exact.iter().copied().enumerate().collect();
        true_top.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (name, count) in true_top.iter().take(20) {
            let name = format!("client-{name}");
            let found = list.entries.iter().find(|entry| entry.name == name);
            let shown = found.unwrap_or_else(|| panic!("{what}: {name} is missing")).count;
            assert!(shown <= *count && *count <= shown + list.may_lack, "{what}: {name}");
        }
        // The bound is of use: it is less than what the last one of the true top has.
        assert!(list.may_lack < true_top[19].1, "{what}");
    }
    for node in &nodes {
        assert!(node.bytes() < 4 << 20, "{} bytes", node.bytes());
    }
}

// Within a minute there are few slices with many requests, within five minutes many with few.
#[test]
fn the_true_top_20_of_three_nodes_are_within_the_25_that_are_shown_at_skew_1() {
    check_zipf(1.0, 1, 60);
    check_zipf(1.0, 2, 300);
}

#[test]
fn the_true_top_20_of_three_nodes_are_within_the_25_that_are_shown_at_more_skew() {
    check_zipf(1.1, 3, 300);
    check_zipf(1.2, 4, 60);
}

/// The memory of all lists, at most, unless rules have very long names, too.
const MAX_BYTES: usize = 80 << 20;

/// Clients invent names as fast as they can, as long as texts may be, and use as many of them often as are kept of a
/// slice: all lists of all slices are full.
#[test]
fn invented_names_take_fixed_memory() {
    const NAMES: u64 = 2_100;
    let mut top = Top::default();
    let text =
        |kind: &str, number: u64| format!("{kind}{number:0>width$}", width = 256 - kind.len());
    let mut most = [0; 2];
    for (turn, most) in (0_u64..).zip(&mut most) {
        // As long as the longest window and a little more, then once more.
        for number in 0..40 * NAMES {
            let (slice, place) = (turn * 40 + number / NAMES, number % NAMES);
            let mut bytes =
                record(["u", "t", "/"].map(|kind| text(kind, number)).each_ref().map(|it| &**it));
            let times = if place < 256 { 3 } else { 1 };
            for outcome_and_marks in [[1, 0], [0, 3]].repeat(times) {
                count_record(&mut top, &mut bytes, slice * SLICE_MICROS, outcome_and_marks);
            }
            // When the lists of the last slice are full.
            if place == 2_040 {
                *most = (*most).max(top.bytes());
            }
        }
    }
    assert!(top.slices.len() == SLICES && most[1] <= MAX_BYTES, "{most:?} bytes");
    // They are full, so that more than this is not possible; and it does not grow.
    assert!(most[1] > MAX_BYTES / 2 && most[1] <= most[0] + most[0] / 100, "{most:?} bytes");
}
