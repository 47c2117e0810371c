//! Tests of the ring: bounded, in order, and nothing lost that fits.

use super::*;

use proptest::prelude::*;

use crate::observe::recent_traffic::record::{TapeRecord, sized, tag};

fn run(tag: u8, text: &str) -> Vec<u8> {
    let mut run = vec![tag];
    sized(&mut run, text.as_bytes());
    run
}

/// A record as it is on the tape.
fn tape_record(at: u64, cost: u64, client: &[u8], place: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 4, 0, 0];
    for length in [client.len(), place.len()] {
        bytes.extend_from_slice(&u16::try_from(length).expect("a short run").to_le_bytes());
    }
    bytes.extend_from_slice(&at.to_le_bytes());
    bytes.extend_from_slice(&cost.to_le_bytes());
    bytes.extend_from_slice(client);
    bytes.extend_from_slice(place);
    bytes
}

fn push(ring: &mut TrafficRing, at: u64, cost: u64, client: &str, path: &str) {
    let (client, place) = (run(tag::USER, client), run(tag::PATH, path));
    let bytes = tape_record(at, cost, &client, &place);
    let (record, rest) = TapeRecord::read(&bytes).expect("a record");
    assert!(rest.is_empty());
    ring.push(&record, &client);
}

/// All kept requests: time, cost, client, path.
fn kept(ring: &TrafficRing) -> Vec<(u64, u64, String, String)> {
    let text = |run: &[u8]| String::from_utf8_lossy(&run[2..]).into_owned();
    let mut all = Vec::new();
    for block in ring.read().blocks {
        let mut reader = BlockReader::new(&block);
        while let Some(it) = reader.next() {
            let (client, place) = (reader.clients[it.client], reader.places[it.place]);
            all.push((it.at.as_micros(), it.cost, text(client), text(place)));
        }
    }
    all
}

proptest! {
    #[test]
    fn what_fits_is_kept_in_order(
        requests in prop::collection::vec((0_u64..50, 0_u64..3_000, 0_u32..20, 0_u32..20), 0..300),
    ) {
        let mut ring = TrafficRing::new(1 << 20);
        let (mut at, mut expected) = (1_000_000_000_000, Vec::new());
        for (step, cost, client, path) in requests {
            at += step * 1_000_000;
            let (client, path) = (format!("user {client}"), format!("/path/{path}"));
            push(&mut ring, at, cost, &client, &path);
            expected.push((at, cost, client, path));
        }
        prop_assert_eq!(kept(&ring), expected);
    }

    /// Whatever arrives, the ring stays within its bytes, and has the last requests without a gap.
    #[test]
    fn a_ring_is_bounded_and_has_the_last_requests(
        length in 1_usize..200, clients in 1_u64..5_000, count in 1_u64..20_000, slow in any::<bool>(),
    ) {
        const MAX_BYTES: u64 = 256 << 10;
        let mut ring = TrafficRing::new(MAX_BYTES);
        let mut seen = Vec::new();
        for number in 0..count {
            // A second apart there is no need for a sample.
            let at = 1_000_000_000_000 + number * if slow { 1_000_000 } else { 10 };
            let client = format!("{:0length$}", number % clients);
            push(&mut ring, at, number, &client, "/");
            seen.push((at, number, client, "/".to_owned()));
        }
        let size = ring.size();
        prop_assert!(size.bytes <= MAX_BYTES, "{} bytes", size.bytes);
        let held: u64 = ring.read().blocks.iter().map(|it| it.bytes.len() as u64).sum();
        prop_assert_eq!(held, size.bytes);
        let kept = kept(&ring);
        prop_assert_eq!(kept.len() as u64, size.requests);
        if size.one_in == 1 {
            prop_assert_eq!(kept.as_slice(), &seen[seen.len() - kept.len()..]);
            prop_assert!(kept.len() == seen.len() || size.bytes > MAX_BYTES / 2, "room is left");
        }
    }
}

#[test]
fn a_flood_is_sampled_by_client_and_all_requests_of_a_client_are_kept() {
    const CLIENTS: u64 = 1_000;
    let mut ring = TrafficRing::new(256 << 10);
    // About ten thousand requests a second, for a minute.
    for number in 0..600_000_u64 {
        push(
            &mut ring,
            1_000_000_000_000 + number * 100,
            1,
            &format!("u{}", number % CLIENTS),
            "/",
        );
    }
    let view = ring.read();
    let sampling = view.sampling();
    assert!(sampling > 0, "all of it would not fit");
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    let first = kept(&ring).first().map(|it| it.0).expect("requests");
    let mut all = 0;
    view.replay(u64::MAX, None, |request| {
        let user = tollgate::Attributes::get(request, tollgate::Attribute::UserId);
        *counts.entry(user.expect("a user").to_owned()).or_default() += 1;
        all += 1;
        std::ops::ControlFlow::Continue(())
    });
    // Each client sent every tenth of a second.
    let expected = (1_000_000_000_000 + 60_000_000 - first) / 100_000;
    assert!(counts.values().all(|count| count.abs_diff(expected) <= 1), "{expected}: {counts:?}");
    assert!((counts.len() as u64) < CLIENTS / 2, "{} clients", counts.len());
    let size = ring.size();
    assert_eq!(size.one_in, 1 << sampling);
}

#[test]
fn a_quiet_ring_keeps_all_clients_again() {
    let mut ring = TrafficRing::new(256 << 10);
    let mut at = 1_000_000_000_000;
    for (count, step) in [(400_000_u64, 100), (60_000, 1_000_000)] {
        for number in 0..count {
            at += step;
            push(&mut ring, at, 1, &format!("user number {}", number % 3_000), "/");
        }
    }
    assert_eq!(ring.open.block.sampling, 0);
}

#[test]
fn a_clock_that_is_set_back_stands_still() {
    let mut ring = TrafficRing::new(1 << 20);
    for at in [10, 5, 20] {
        push(&mut ring, at, 1, "u", "/");
    }
    let times: Vec<u64> = kept(&ring).iter().map(|it| it.0).collect();
    assert_eq!(times, [10, 10, 20]);
}
