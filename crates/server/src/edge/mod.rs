//! Where requests arrive: connections, HTTP, gRPC, Envoy's protocols, the gateway.

pub(crate) mod drain;
pub(crate) mod envoy;
pub(crate) mod gateway;
pub(crate) mod grpc;
pub(crate) mod host_check;
pub(crate) mod http;
pub mod listen;
pub(crate) mod replayed_body;
pub(crate) mod service;
pub(crate) mod ui;
