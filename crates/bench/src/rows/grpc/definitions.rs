//! The server's messages and services, as Rust.
#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, unused_qualifications)]
#![allow(dead_code, reason = "not every service and message is measured")]

include!(concat!(env!("OUT_DIR"), "/definitions.rs"));
