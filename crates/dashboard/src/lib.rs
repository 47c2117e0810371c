//! The pages of the dashboard: view models in, HTML out. Knows no server, no clock and no I/O.
//!
//! Pages work under `Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'
//! data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`, and without a script.
#![forbid(unsafe_code)]

pub mod asset;
mod format;
mod frame;
pub mod model;
mod page;
mod part;
pub mod path;
#[cfg(feature = "samples")]
pub mod samples;
mod view;

pub use page::{Fragment, Page};

/// The page where a token is entered.
#[must_use]
pub fn sign_in(model: &model::SignIn) -> String {
    view::sign_in::page(model).into_string()
}
