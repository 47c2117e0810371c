//! Signals to other processes, and what `/proc` says of them.

use std::fs;
use std::process::{Command, Stdio};

use crate::wait::until;

/// The state in `/proc` of a process that has ended and is not reaped yet.
const ENDED: &str = "\nState:\tZ";

/// Sends a signal, like `STOP`. Processes that have ended meanwhile need none.
pub(crate) fn send(signal: &str, ids: &[u32]) {
    if ids.is_empty() {
        return;
    }
    let sent = Command::new("kill")
        .args(["-s", signal])
        .args(ids.iter().map(u32::to_string))
        .stderr(Stdio::null())
        .status();
    let sent = sent.unwrap_or_else(|error| panic!("the program `kill` does not start: {error}"));
    assert!(sent.success() || ids.iter().any(|id| is_gone(*id)), "SIG{signal} was not sent");
}

/// Stops processes where they are, with all of their threads, until `CONT` is sent.
pub(crate) fn freeze(ids: &[u32]) {
    send("STOP", ids);
    until("stopped processes", || {
        ids.iter().all(|id| is_gone(*id) || is_frozen(*id)).then_some(())
    });
}

pub(crate) fn is_frozen(id: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else { return false };
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("status"));
        status.is_ok_and(|status| status.contains("\nState:\tT"))
    })
}

/// Whether a process has ended, reaped or not.
pub(crate) fn is_gone(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status"));
    status.map_or(true, |status| status.contains(ENDED))
}

/// The processes that a process started and that run, without those that these started. One that has
/// ended is none of them, although it is listed until its parent has noticed, which one that is stopped
/// never does.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let wanted = format!("\nPPid:\t{parent}\n");
    fs::read_dir("/proc")
        .expect("/proc can be read")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|id| {
            fs::read_to_string(format!("/proc/{id}/status"))
                .is_ok_and(|it| it.contains(&wanted) && !it.contains(ENDED))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_ended_is_not_listed() {
        let mut child = Command::new("true").spawn().expect("`true` starts");
        until("its end", || is_gone(child.id()).then_some(()));
        assert!(!children(std::process::id()).contains(&child.id()));
        child.wait().expect("an end");
    }
}
