//! One body after the other for a client that can only send one.
//!
//! h2load posts a file, and reads it anew for every request. So the file is written over and over,
//! whenever h2load waits: this runs on the same processor and only if nothing else wants to. Should
//! a request get a part of each of two bodies, that is a body too, as they differ in the texts of keys
//! only.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use clap::Args;

use crate::Fallible;

/// Which bodies, and where to.
#[derive(Args, Clone, Debug)]
pub(crate) struct Turn {
    /// A file of bodies, one right after the other.
    pub(crate) bodies: PathBuf,
    /// How long each of them is.
    pub(crate) length: usize,
    /// The file that is posted.
    pub(crate) posted: PathBuf,
}

/// Takes turns until the process is ended.
pub(crate) fn turn(turn: &Turn) -> Fallible<()> {
    let bodies = fs::read(&turn.bodies)?;
    let posted = OpenOptions::new().write(true).open(&turn.posted)?;
    for body in bodies.chunks_exact(turn.length.max(1)).cycle() {
        posted.write_all_at(body, 0)?;
    }
    Err("there is nothing to send".into())
}
