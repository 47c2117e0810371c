//! Tollgate over HTTP: one process that judges requests for whoever asks.
//!
//! An [`App`] answers requests; [`listen`] brings them in; [`settings`] say how. Handlers translate
//! between the wire and the library, which judges.
#![forbid(unsafe_code)]

mod admin;
mod app;
mod audit_trail;
mod auth;
mod board;
mod check;
mod discreet;
mod example;
pub mod exposure;
mod extract;
mod follower;
mod gateway;
mod grpc;
mod guard;
mod handlers;
mod host_check;
mod idempotency;
mod journal;
pub mod listen;
mod metrics;
mod offload;
mod openapi;
mod paging;
mod penalty;
mod policy_source;
mod problem;
mod rls;
mod routes;
mod rulebook;
pub mod settings;
mod state;
mod traces;
mod unread;
mod wire;

pub use app::App;
pub use gateway::{Gateway, GatewayBody};
pub use state::StartError;
