//! The service: the real binary, called by real clients and real proxies.

mod admin;
mod audit;
mod backup;
mod browser;
mod curl;
mod ending;
mod envoy;
mod exact;
mod exposure;
mod forward_auth;
mod grpc;
mod hostile;
mod isolation;
mod nginx;
mod once;
mod openapi;
mod operate;
mod paths;
mod penalty;
mod reload;
mod rights;
mod rls;
mod start_and_stop;
mod status;
mod tls;
mod traces;
