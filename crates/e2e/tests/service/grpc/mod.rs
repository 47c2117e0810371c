//! gRPC: the check API, health, reflection, permissions, encryption, and malformed input.

mod encrypted;
mod exact;
mod framing;
mod health;
mod hostile;
mod rate_limiter;
mod rights;
