//! The gateway as its users meet it: the real binary between real clients and real upstreams.

mod bodies;
mod encrypted;
mod ending;
mod example;
mod failures;
mod fields;
mod frames;
mod gateway;
mod grpc;
mod limits;
mod nginx;
mod raw;
mod routes;
mod several;
mod smuggling;
mod socket;
mod stale;
mod upgrades;
mod upstream;
mod words;

#[expect(dead_code, reason = "the tests of the service use all of it")]
#[path = "../service/support/mod.rs"]
mod support;
