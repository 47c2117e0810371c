//! gRPC as its clients meet it: the check API, health, reflection, rights, encryption, and nonsense.

mod encrypted;
mod exact;
mod health;
mod hostile;
mod rate_limiter;
mod rights;
