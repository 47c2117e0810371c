//! Limits how many rows of the log one client or tenant may write, so that a flood of one does not
//! displace others: a token bucket for each, in bounded memory.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use tollgate::Timestamp;

/// How many clients, and how many tenants, have a bucket at a time.
const MAX_NAMES: usize = 10_000;
/// A client may write a tenth of all rows, and in a burst the rows of one second.
const CLIENT: WrittenBytes = WrittenBytes { divisor: 10, burst_seconds: 1 };
/// A tenant may write half of all rows.
const TENANT: WrittenBytes = WrittenBytes { divisor: 2, burst_seconds: 4 };

#[derive(Clone, Copy, Debug)]
struct WrittenBytes {
    /// The share of the rate of the log, as a divisor.
    divisor: u64,
    /// The burst, in seconds of the whole rate.
    burst_seconds: u64,
}

/// How much every client and tenant has recently written.
#[derive(Debug)]
pub(super) struct WriteShares {
    rows_per_second: u64,
    clients: HashMap<Box<str>, Bucket, RandomState>,
    tenants: HashMap<Box<str>, Bucket, RandomState>,
}

/// What was taken, in millionths of a row, and when.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    taken: u64,
    at: Timestamp,
}

impl WriteShares {
    pub(super) fn new(rows_per_second: u64) -> Self {
        Self { rows_per_second, clients: HashMap::default(), tenants: HashMap::default() }
    }

    /// Whether a row of this client and tenant may be written; if so, it is counted.
    pub(super) fn take(&mut self, client: &str, tenant: Option<&str>, now: Timestamp) -> bool {
        let rate = self.rows_per_second;
        if !take(&mut self.clients, client, CLIENT, rate, now) {
            return false;
        }
        tenant.is_none_or(|tenant| take(&mut self.tenants, tenant, TENANT, rate, now))
    }
}

fn take(
    buckets: &mut HashMap<Box<str>, Bucket, RandomState>,
    name: &str,
    share: WrittenBytes,
    rows_per_second: u64,
    now: Timestamp,
) -> bool {
    const ROW: u64 = 1_000_000;
    // Millionths of a row in a microsecond are rows in a second.
    let rate = (rows_per_second / share.divisor).max(1);
    let burst = (rows_per_second * share.burst_seconds).max(1) * ROW;
    let left = |bucket: &Bucket| {
        bucket.taken.saturating_sub(now.since(bucket.at).get().saturating_mul(rate))
    };
    if let Some(bucket) = buckets.get_mut(name) {
        let taken = left(bucket);
        if taken + ROW > burst {
            return false;
        }
        *bucket = Bucket { taken: taken + ROW, at: now.max(bucket.at) };
        return true;
    }
    if buckets.len() >= MAX_NAMES {
        buckets.retain(|_, bucket| left(bucket) > 0);
    }
    // A client without a bucket is bounded only by the rate of the whole log.
    if buckets.len() < MAX_NAMES {
        buckets.insert(name.into(), Bucket { taken: ROW, at: now });
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000_000 + millis * 1_000)
    }

    #[test]
    fn a_flood_of_one_client_does_not_displace_others() {
        let mut shares = WriteShares::new(1_000);
        let mut flood = |client: &str, tenant: Option<&str>, from: u64, millis: u64| {
            let rows = (0..millis * 10).map(|row| at(from + row / 10));
            rows.filter(|now| shares.take(client, tenant, *now)).count()
        };
        assert_eq!(flood("ann", None, 0, 10_000), 1_000 + 999, "a second's worth and a tenth");
        assert_eq!(flood("bob", None, 10_000, 50), 500, "another client is not affected");
        assert_eq!(flood("ann", None, 20_000, 10), 100, "the bucket refills");
        let of_tenant: usize =
            (0..100).map(|client| flood(&format!("c{client}"), Some("acme"), 30_000, 100)).sum();
        assert_eq!(of_tenant, 4_000 + 49, "clients of a tenant share");
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let mut shares = WriteShares::new(1_000);
        for name in 0..3 * MAX_NAMES {
            assert!(shares.take(&format!("c{name}"), None, at(0)));
        }
        assert_eq!(shares.clients.len(), MAX_NAMES);
        assert!(shares.take("later", None, at(1_000)));
        assert_eq!(shares.clients.len(), 1, "buckets that have refilled are removed");
    }
}
