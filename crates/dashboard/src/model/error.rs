//! A page in place of another one that cannot be shown.

use super::time::Time;

/// A page in place of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPage {
    /// The status of the response.
    pub status: u16,
    /// What failed, in a few words: "No such rule".
    pub title: String,
    /// What was wrong, and what would be right, as sentences.
    pub detail: String,
    /// Since when, if that is known.
    pub since: Option<Time>,
    /// What still works, as a sentence.
    pub still_works: Option<String>,
    /// Where to go next: texts and addresses.
    pub links: Vec<(String, String)>,
}
