//! Requests that go on while servers change, and what they should have added up to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tokio::task::JoinSet;
use tollgate_core::{Algorithm, Charge, Limit};
use tollgate_store::Store as _;
use tollgate_store::redis::RedisStore;

use crate::redis::stand::{LONG, NO_TIME, eventually, key, limit, one, remaining, story};

/// Each request is about all of them.
const RULES: [(&str, Algorithm); 3] = [
    ("bucket", Algorithm::TokenBucket),
    ("window", Algorithm::FixedWindow),
    ("log", Algorithm::SlidingWindowLog),
];

const SUBJECTS: usize = 18;
/// Requests about a subject at a time.
const CROWD: usize = 2;
/// Far above what a test charges.
const LIMIT: u64 = 1_000_000;

/// Requests about several subjects. Each has to be answered, and is counted.
pub(crate) struct Load {
    store: RedisStore,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

struct Shared {
    limits: [Limit; RULES.len()],
    is_over: AtomicBool,
    admitted: [AtomicU64; SUBJECTS],
}

impl Load {
    pub(crate) fn start(store: RedisStore) -> Self {
        let shared = Arc::new(Shared {
            limits: RULES.map(|(_, algorithm)| limit(algorithm, LIMIT, LONG)),
            is_over: AtomicBool::new(false),
            admitted: std::array::from_fn(|_| AtomicU64::new(0)),
        });
        let mut tasks = JoinSet::new();
        for number in (0..SUBJECTS).flat_map(|number| [number; CROWD]) {
            let (store, shared) = (store.clone(), Arc::clone(&shared));
            tasks.spawn(async move {
                let subject = subject(number);
                while !shared.is_over.load(Relaxed) {
                    let charges: Vec<Charge<'_>> = RULES
                        .iter()
                        .zip(&shared.limits)
                        .map(|((rule, _), limit)| one(key(rule, &subject), limit))
                        .collect();
                    let settled = store.settle(&charges, NO_TIME).await;
                    let settled = settled.unwrap_or_else(|error| panic!("{}", story(&error)));
                    assert!(settled.passed, "{settled:?}");
                    shared.admitted[number].fetch_add(1, Relaxed);
                }
            });
        }
        Self { store, shared, tasks }
    }

    /// Waits until every subject has been asked about.
    pub(crate) async fn settle_in(&self) {
        eventually("a load on all counters", || async {
            self.shared.admitted.iter().all(|count| count.load(Relaxed) > 1).then_some(())
        })
        .await;
    }

    /// Ends it: no request failed, and the counters equal what was admitted.
    pub(crate) async fn end(mut self) {
        self.shared.is_over.store(true, Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("requests that were all answered");
        }
        for (number, admitted) in self.shared.admitted.iter().enumerate() {
            for ((rule, _), limit) in RULES.iter().zip(&self.shared.limits) {
                let subject = subject(number);
                let used = LIMIT - remaining(&self.store, key(rule, &subject), limit).await;
                assert_eq!(used, admitted.load(Relaxed), "{rule} of {subject}");
            }
        }
    }
}

fn subject(number: usize) -> String {
    format!("subject {number}")
}
