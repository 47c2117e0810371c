//! Configurations of nginx: one binary, so that it links once.

mod errors;
mod hostile;
mod keys;
mod limits;
mod places;
mod precedence;
mod requests;
mod support;
mod syntax;
