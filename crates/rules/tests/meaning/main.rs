//! What policies mean: one binary, so that it links once.

mod bans;
mod calendar;
mod candidate;
mod compile;
mod directory;
mod explain;
mod hostile_requests;
mod keys;
mod limit_from;
mod lint;
mod lint_figures;
mod paths;
mod plan;
mod request;
mod scan;
