//! The files of envoyproxy/ratelimit: one binary, so that it links once.

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
