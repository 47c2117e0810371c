//! The server: checks over HTTP, gRPC, Envoy's protocols and as a gateway, and the admin API.
//!
//! An [`App`] serves requests; [`listen`] accepts connections; [`settings`] configure both. Entry points
//! translate between the wire and the library, which checks.
#![forbid(unsafe_code)]

mod admin;
mod app;
mod board;
mod check;
mod discreet;
mod edge;
mod example;
pub mod exposure;
mod extract;
mod follower;
mod handlers;
pub mod listen;
mod observe;
mod offload;
mod openapi;
mod paging;
mod penalty;
mod policy_source;
mod problem;
mod routes;
mod rulebook;
pub mod settings;
mod state;
mod wire;

pub use app::App;
pub use edge::gateway::{Gateway, GatewayBody};
pub use state::StartError;
