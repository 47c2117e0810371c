//! Which rules a request matches: paths, hosts, methods, globs, and the index over all of them.

pub(crate) mod conditions;
pub(crate) mod costs;
pub(crate) mod glob;
pub(crate) mod globs;
pub(crate) mod host;
pub(crate) mod index;
pub(crate) mod method;
pub(crate) mod network;
pub(crate) mod path;
pub(crate) mod path_index;
pub(crate) mod steps;
