//! The HTTP API: routes, what handlers extract from requests, and the JSON of responses.

mod docs_page;
pub(crate) mod extract;
pub(crate) mod handlers;
pub(crate) mod openapi;
pub(crate) mod paging;
pub(crate) mod problem;
mod reference;
pub(crate) mod routes;
pub(crate) mod version_notice;
pub(crate) mod wire;
