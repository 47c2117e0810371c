//! Three instances of a program with one Redis: together they let through exactly what the limit
//! allows.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::store::RemoteSettings;
use tollgate::store::redis::RedisStore;
use tollgate::{Limiter, ManualClock, Micros};
use tollgate_testbed::Redis;

use crate::tower::scene::parse;
use crate::tower::{MIDNIGHT, Site, layer};

const LIMIT: usize = 20;
const INSTANCES: usize = 3;
const POLICY: &str = "
rules: [{rule_id: all, limit: 20, window: 1h, identifier_type: ip, algorithm: fixed_window}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_together_admit_exactly_the_limit() {
    let redis = Redis::start();
    let clock = ManualClock::at(MIDNIGHT);
    // No timeout on a busy machine, and one clock for all instances.
    let settings = RemoteSettings {
        deadline: Duration::from_secs(20),
        uses_callers_clock: true,
        ..RemoteSettings::default()
    };
    let mut sites = Vec::new();
    for _ in 0..INSTANCES {
        let store = RedisStore::connect(&redis.url(), settings.clone()).expect("a URL");
        let limiter = Limiter::builder().policy(parse(POLICY)).store(store);
        sites.push(Arc::new(Site::start(&layer(limiter.clock(clock.clone()).build())).await));
    }
    for window in 0..3 {
        let mut asked = JoinSet::new();
        for request in 0..3 * LIMIT {
            let site = Arc::clone(&sites[request % INSTANCES]);
            asked.spawn(async move { site.ask("/").await.status });
        }
        let statuses = asked.join_all().await;
        let count = |status: u16| statuses.iter().filter(|seen| **seen == status).count();
        assert_eq!((count(200), count(429)), (LIMIT, 2 * LIMIT), "window {window}");
        clock.advance(Micros::from_secs(3_600));
    }
    // A price that one instance corrects is seen by all.
    assert_eq!(sites[0].ask("/price/15").await.fields["x-ratelimit-remaining"], "19");
    assert_eq!(sites[1].ask("/price/0").await.fields["x-ratelimit-remaining"], "4");
    assert_eq!(sites[2].ask("/").await.fields["x-ratelimit-remaining"], "4");
}
