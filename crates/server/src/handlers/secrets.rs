//! What API keys and tokens have in common, of which only digests are kept.

use serde::Serialize;
use tollgate::Timestamp;
use tollgate_catalog::{NoRandomNumbers, Stored};
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::wire::time::rfc_3339;

/// Who made something, and when.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Made {
    /// Its version, which is also its `ETag`.
    version: u64,
    /// When it was made, in RFC 3339.
    #[schema(format = DateTime)]
    created_at: String,
    /// The token, or the part of the program, that made it.
    created_by: String,
}

impl Made {
    pub(crate) fn new(stored: &Stored) -> Self {
        Self {
            version: stored.version,
            created_at: rfc_3339(Timestamp::from_micros(stored.created_at)),
            created_by: stored.created_by.clone(),
        }
    }
}

/// A text that is there says something, and not too much.
pub(crate) fn check_text(field: &str, text: Option<&str>, most: usize) -> Result<(), Problem> {
    let is_sound = text.is_none_or(|text| (1..=most).contains(&text.len()));
    is_sound.then_some(()).ok_or_else(|| {
        let detail = format!("{field}: a text of 1 to {most} bytes, or leave it out");
        Problem::unprocessable("invalid_document", detail)
    })
}

pub(crate) fn no_random_numbers(error: NoRandomNumbers) -> Problem {
    Problem::internal(error.to_string())
}
