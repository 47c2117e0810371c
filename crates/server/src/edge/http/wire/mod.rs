//! The shapes of the check API: what is asked, and what is answered.

pub(crate) mod answer;
pub(crate) mod ban;
pub(crate) mod check;
pub(crate) mod decode;
pub(crate) mod time;
