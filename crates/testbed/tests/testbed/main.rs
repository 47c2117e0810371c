//! The servers that other tests use: each starts, responds, fails on demand, comes back, and leaves
//! nothing behind.

mod cluster;
mod left_behind;
mod postgres;
mod proxy;
mod redis;
mod sentinels;

use std::fs;

use tollgate_testbed::Reply;

/// Whether a process has ended, reaped or not.
fn is_gone(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status"));
    status.map_or(true, |status| status.contains("\nState:\tZ"))
}

/// Whether a process is stopped.
fn is_stopped(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status"));
    status.is_ok_and(|status| status.contains("\nState:\tT"))
}

fn text(text: &str) -> Reply {
    Reply::Text(text.to_owned())
}
