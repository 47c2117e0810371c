//! Counters in PostgreSQL, against real servers: what every store promises, and what happens when a
//! server does not. `TOLLGATE_PROPTEST_CASES=50` makes a campaign of it.

mod agreement;
mod calendar;
mod crowd;
mod outage;
mod table;

use crate::contract::draw;
use crate::contract::suite;

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use tollgate_core::{Algorithm, Charge, Key, Limit, Micros, Mode, Quota, Timestamp};
use tollgate_store::postgres::PostgresStore;
use tollgate_store::{RemoteSettings, Settlement, Store as _, StoreError};

/// More than anything takes on a busy machine.
const AGES: Duration = Duration::from_secs(10);

/// A store whose answers are always waited for.
fn patient(url: &str) -> PostgresStore {
    let settings = RemoteSettings { deadline: AGES, ..RemoteSettings::default() };
    PostgresStore::connect(url, settings).expect("a valid URL")
}

fn key(subject: &str) -> Key<'_> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    Key::new(&hasher, "rule", subject.as_bytes(), b"")
}

/// So many per year, so that nothing refills while a test runs.
fn limit(algorithm: Algorithm, limit: u64) -> Limit {
    let year = Micros::from_secs(366 * 86_400);
    Quota::new(algorithm, limit, year).compile().expect("a valid quota")
}

/// One unit of a counter, enforced.
fn one<'a>(subject: &'a str, limit: &'a Limit) -> Charge<'a> {
    Charge { key: key(subject), limit, cost: 1, mode: Mode::Enforce }
}

/// Charges one unit, at whatever time it is for the database.
async fn charge(
    store: &PostgresStore,
    subject: &str,
    limit: &Limit,
) -> Result<Settlement, StoreError> {
    store.settle(&[one(subject, limit)], Timestamp::EPOCH).await
}
