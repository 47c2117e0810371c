//! What is measured, in the order of the report.

mod accuracy;
mod batch;
mod catalog;
mod estimate;
pub(crate) mod gateway;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod limiter;
mod load;
pub(crate) mod memory;
pub(crate) mod redis;
pub(crate) mod server;
mod single;
mod trace;

use crate::Fallible;
use crate::row::Row;
use crate::scale::Scale;

/// A benchmark: one set-up, one or more rows.
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&Scale) -> Fallible<Vec<Row>>,
}

pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "gcra/1k",
        about: "one GCRA rule, 1,000 keys, against governor",
        run: |scale| single::against_governor("gcra/1k", 1_000, 1.3, scale),
    },
    Bench {
        name: "gcra/1m",
        about: "one GCRA rule, 1,000,000 keys, against governor",
        run: |scale| single::against_governor("gcra/1m", 1_000_000, 2.5, scale),
    },
    Bench {
        name: "gcra/10m",
        about: "one GCRA rule, 10,000,000 keys, against governor",
        run: |scale| single::against_governor("gcra/10m", 10_000_000, 2.5, scale),
    },
    Bench {
        name: "gcra/2_threads",
        about: "one GCRA rule, 1,000,000 keys, two threads against one",
        run: single::two_threads,
    },
    Bench {
        name: "gcra/throttlecrab",
        about: "one GCRA rule against throttlecrab's stores",
        run: single::against_throttlecrab,
    },
    Bench {
        name: "batch",
        about: "batches of 16 and 64, 10,000,000 keys, against governor one by one",
        run: batch::against_governor,
    },
    Bench {
        name: "limiter/limitador",
        about: "1,000 rules of which 3 apply, against limitador with 3 limits",
        run: limiter::against_limitador,
    },
    Bench {
        name: "limiter/2_threads",
        about: "the same check, two threads against one",
        run: limiter::two_threads,
    },
    Bench {
        name: "limiter/rules",
        about: "the same check with 10,000 rules against 10",
        run: limiter::many_rules,
    },
    Bench {
        name: "limiter/allocations",
        about: "heap allocations of an allowed check",
        run: limiter::allocations,
    },
    Bench {
        name: "catalog/changes",
        about: "one rule of 10,000 and one client of 1,000,000 changed and in force",
        run: catalog::changes,
    },
    Bench {
        name: "catalog/checks",
        about: "a check while a client changes every millisecond, against one in peace",
        run: catalog::checks_meanwhile,
    },
    Bench {
        name: "memory",
        about: "resident bytes per counter, and of 30,000,000 mixed ones",
        run: memory::resident,
    },
    Bench {
        name: "http/check",
        about: "a check over HTTP, against an axum handler that checks nothing",
        run: http::check,
    },
    Bench {
        name: "http/throttlecrab",
        about: "a check over HTTP, against throttlecrab-server",
        run: http::check_against_throttlecrab,
    },
    Bench {
        name: "http/batch_100",
        about: "batches of 100 checks over HTTP, per second of the server's processor",
        run: http::batch,
    },
    Bench {
        name: "http/recent_traffic",
        about: "a check over HTTP while recent requests are kept, against one while they are not",
        run: http::recent_traffic,
    },
    Bench {
        name: "dashboard/page",
        about: "every page of the dashboard with 1,000 rules and 100,000 active keys",
        run: http::dashboard::pages,
    },
    Bench {
        name: "dashboard/open",
        about: "what an open page of the dashboard takes, and what 100 of them add to a check over HTTP",
        run: http::dashboard::open_pages,
    },
    Bench {
        name: "http/latency",
        about: "a check over HTTP at half of the highest load, against the bare handler",
        run: http::latency::latency,
    },
    Bench {
        name: "gateway",
        about: "a request through the gateway, against the same without rules, and against nginx",
        run: gateway::forward,
    },
    Bench {
        name: "grpc/check",
        about: "a check over gRPC, against a tonic handler that checks nothing",
        run: grpc::check,
    },
    Bench {
        name: "grpc/check_4x64",
        about: "the same over 4 connections with 64 streams each",
        run: grpc::check_over_few_connections,
    },
    Bench {
        name: "grpc/envoy",
        about: "a question of Envoy's, against a tonic handler that checks nothing",
        run: grpc::envoy,
    },
    Bench {
        name: "grpc/batch_100",
        about: "batches of 100 checks over gRPC, per second of the server's processor",
        run: grpc::batch,
    },
    Bench {
        name: "redis/coalesced",
        about: "256 checks at once in Redis, against one call of the script for each",
        run: redis::coalesced,
    },
    Bench {
        name: "redis/three_rules_calls",
        about: "calls of Redis for a check of three rules",
        run: redis::three_rules_calls,
    },
    Bench {
        name: "redis/cpu",
        about: "processor time of Redis for a check of each algorithm, against INCR",
        run: redis::cpu,
    },
    Bench {
        name: "redis/to_incrby_expire",
        about: "processor time of Redis for one rule and for three, against INCRBY and EXPIRE for as many counters",
        run: redis::pairs,
    },
    Bench {
        name: "redis/to_limitador",
        about: "processor time of Redis for one rule and for three, against limitador with counters in Redis",
        run: redis::limitador::against_limitador,
    },
    Bench {
        name: "redis/rules_1_to_10",
        about: "processor time of Redis for ten rules, against one",
        run: redis::rules,
    },
    Bench {
        name: "redis/slots_1_to_3",
        about: "checks over one slot of a Redis Cluster, against three",
        run: redis::slots,
    },
    Bench {
        name: "redis/cluster_reads",
        about: "reads from sockets of a busy Redis Cluster for a check",
        run: redis::cluster_reads,
    },
    Bench {
        name: "redis/latency",
        about: "a check over HTTP with counters in Redis, against counters in memory",
        run: redis::latency::latency,
    },
    Bench { name: "redis/away", about: "the same while Redis is away", run: redis::latency::away },
    Bench {
        name: "redis/bytes_per_subject",
        about: "memory of Redis for one rule of a subject and for three, 200,000 subjects",
        run: redis::memory::bytes_per_subject,
    },
    Bench {
        name: "redis/10m_clients",
        about: "memory of Redis for 10,000,000 clients with three rules each, by a measurement of 1,000,000",
        run: redis::memory::ten_million,
    },
    Bench {
        name: "accuracy",
        about: "wrong decisions of the window algorithms, against the exact log",
        run: accuracy::against_log,
    },
    Bench {
        name: "estimate",
        about: "how often the window algorithms miscount traffic, against the exact log",
        run: estimate::against_log,
    },
];
