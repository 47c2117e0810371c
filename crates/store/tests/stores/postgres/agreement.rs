//! The database counts as `tollgate_core` does: same verdicts, same figures, same states.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tollgate_core::{Key, Timestamp};
use tollgate_store::postgres::PostgresStore;
use tollgate_store::{RemoteSettings, Store as _};
use tollgate_testbed::Postgres;

use crate::postgres::AGES;
use crate::postgres::draw::Reach;
use crate::postgres::suite::check_store;

#[test]
fn it_counts_as_memory_does() {
    let postgres = Postgres::start();
    let runtime = Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let settings =
        RemoteSettings { deadline: AGES, uses_callers_clock: true, ..RemoteSettings::default() };
    let store = PostgresStore::connect(&postgres.url(), settings).expect("a valid URL");
    let store = Arc::new(store);
    runtime.block_on(store.settle(&[], Timestamp::EPOCH)).expect("a database that answers");
    let make = || {
        // Each trace begins with nothing counted.
        postgres.query("TRUNCATE tollgate_counters");
        Arc::clone(&store)
    };
    let text = |store: &Arc<PostgresStore>, key: &Key<'_>| runtime.block_on(store.state_text(key));
    check_store("PostgreSQL", 25, Reach::ALL, make, text);
}
