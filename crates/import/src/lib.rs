//! Configuration files of other rate limiters: read with everything that is wrong with them, and made
//! into a policy with notes on what it does differently.
//!
//! Files of envoyproxy/ratelimit can also be used as they are: [`envoy::EnvoyConfig`] matches the
//! requests of Envoy as that service does.
#![forbid(unsafe_code)]

pub mod envoy;
mod file_problem;
pub mod nginx;

pub use file_problem::FileProblem;
