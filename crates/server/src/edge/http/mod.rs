//! The HTTP API: routes, what handlers extract from requests, and the JSON of responses.

pub(crate) mod extract;
pub(crate) mod handlers;
pub(crate) mod openapi;
pub(crate) mod paging;
pub(crate) mod problem;
mod reference;
pub(crate) mod routes;
pub(crate) mod wire;
