//! Faults of a store that is one server.

use std::time::Duration;

use tollgate_testbed::{FaultProxy, Postgres, Redis};

use super::{Fault, Forgets, LONG_OUTAGE, OUTAGE, fill, make_room, try_out};
use crate::load::Load;

#[test]
fn faults_of_one_redis_stay_within_bounds() {
    let redis = &Redis::start();
    let faults = [
        Fault::new("kill -9, back after 3 s", Forgets::Everything, |load| {
            redis.kill();
            load.wait(load.now(), OUTAGE);
            redis.restart();
        }),
        Fault::new("SIGSTOP for 10 s", Forgets::Nothing, |load| {
            redis.pause();
            load.wait(load.now(), LONG_OUTAGE);
            redis.resume();
        }),
        Fault::new("restarted, empty", Forgets::Everything, |_| redis.restart()).short(),
        Fault::harmless("SCRIPT FLUSH", |_| {
            redis.command(&["SCRIPT", "FLUSH"]);
        })
        .short(),
        Fault::new("memory full for 3 s", Forgets::Nothing, |load| {
            fill(redis);
            load.wait(load.now(), OUTAGE);
            make_room(redis);
        })
        .short(),
    ];
    try_out("one Redis", &redis.url(), &faults);
}

#[test]
fn faults_of_the_network_to_redis_stay_within_bounds() {
    use tollgate_testbed::Fault as Network;
    let redis = Redis::start();
    let proxy = &FaultProxy::start(redis.address());
    let during = |network: Network| {
        move |load: &Load<'_>| {
            proxy.set(network);
            load.wait(load.now(), OUTAGE);
            proxy.set(Network::Pass);
        }
    };
    let latency = |millis: u64| {
        let (to_server, to_client) = (Duration::from_millis(millis), Duration::from_millis(millis));
        during(Network::Latency { to_server, to_client })
    };
    let faults = [
        Fault::harmless("20 ms of latency for 3 s", latency(10)),
        Fault::new("200 ms of latency for 3 s", Forgets::Nothing, latency(100)),
        Fault::harmless("20 kB a second for 3 s", during(Network::Bandwidth(20_000))),
        Fault::new("connections reset for 3 s", Forgets::Nothing, during(Network::Refuse)),
        Fault::new("half open for 3 s", Forgets::Nothing, during(Network::Silence)).short(),
    ];
    try_out("one Redis, network", &format!("redis://{}", proxy.address()), &faults);
}

#[test]
fn faults_of_one_postgres_stay_within_bounds() {
    let postgres = &Postgres::start();
    let faults = [
        // Its table is one that PostgreSQL empties after a crash.
        Fault::new("kill -9, back after 3 s", Forgets::Everything, |load| {
            postgres.kill();
            load.wait(load.now(), OUTAGE);
            postgres.restart();
        }),
        Fault::new("SIGSTOP for 10 s", Forgets::Nothing, |load| {
            postgres.pause();
            load.wait(load.now(), LONG_OUTAGE);
            postgres.resume();
        }),
        Fault::harmless("connections ended", |_| {
            postgres.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE application_name = 'tollgate'",
            );
        })
        .short(),
    ];
    try_out("PostgreSQL", &postgres.url(), &faults);
}
