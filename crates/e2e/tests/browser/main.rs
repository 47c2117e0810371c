//! The dashboard in a real browser: Chromium against the real binary, with real traffic.
//!
//! Each test starts a server, sends requests, and runs a script of this folder that drives Chromium. `UPDATE_SCREENSHOTS=1
//! cargo test --test browser screenshots` takes the pictures of the documents anew.

mod editing;
mod figures;
mod hostile;
mod looks;
mod people;
mod report;
mod screenshots;
mod script;
mod shop;
mod simulate;
mod try_request;
