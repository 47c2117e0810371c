//! The gateway as its users meet it: the real binary between real clients and real upstreams.

mod bodies;
mod credentials;
mod encrypted;
mod ending;
mod example;
mod failures;
mod fields;
mod frames;
mod gateway;
mod grpc;
mod held;
mod hosts;
mod limits;
mod mended;
mod nginx;
mod paths;
mod raw;
mod routes;
mod seen;
mod several;
mod shared;
mod shares;
mod slow_clients;
mod smuggling;
mod socket;
mod stale;
mod streams;
mod upgrades;
mod upstream;
mod words;

#[expect(dead_code, reason = "the tests of the service use all of it")]
#[path = "../service/support/mod.rs"]
mod support;
