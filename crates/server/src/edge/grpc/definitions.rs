//! The messages and services of `proto`, as Rust.
#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, unused_qualifications)]

include!(concat!(env!("OUT_DIR"), "/definitions.rs"));

/// The encoded definitions, for reflection.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/definitions.bin"));
