//! The server: checks over HTTP, gRPC, Envoy's protocols and as a gateway, and the admin API.
//!
//! An [`App`] serves requests; [`listen`] accepts connections; [`settings`] configure both. Entry points
//! translate between the wire and the library, which checks.
#![forbid(unsafe_code)]

mod admin;
mod app;
mod check;
mod edge;
mod observe;
mod policy;
pub mod settings;

pub use app::App;
pub use app::state::StartError;
pub use edge::envoy::source::limit_ids;
pub use edge::gateway::Gateway;
pub use edge::listen;
pub use edge::service::Service;
