//! The contestants of the single-rule rows, ours and theirs, all under the same quota: so large that
//! every check is admitted and written.

pub(crate) mod governor;
pub(crate) mod limitador;
pub(crate) mod ours;
pub(crate) mod throttlecrab;

pub(crate) use tollgate_instructions::{LIMIT, USED, WINDOW_SECONDS};
