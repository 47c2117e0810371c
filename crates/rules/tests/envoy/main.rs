//! The files of envoyproxy/ratelimit: one binary, so that it links once.

#[path = "../support/hostile_text.rs"]
mod hostile_text;

mod counters;
mod errors;
mod families;
mod hostile;
mod import;
mod imported;
mod limits;
mod matching;
mod oracle;
mod request;
