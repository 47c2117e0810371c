//! Where requests arrive besides HTTP handlers: gRPC, Envoy, the gateway.

pub(crate) mod drain;
pub(crate) mod envoy;
pub(crate) mod gateway;
pub(crate) mod grpc;
pub(crate) mod host_check;
