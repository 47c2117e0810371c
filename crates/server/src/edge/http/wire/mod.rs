//! The JSON of the check API: requests and responses.

pub(crate) mod ban;
pub(crate) mod check;
pub(crate) mod decode;
pub(crate) mod plain;
pub(crate) mod plain_call;
pub(crate) mod response;
pub(crate) mod time;
pub(crate) mod url_path;
