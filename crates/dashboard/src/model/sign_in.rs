//! The page where a token is entered.

/// The page where a token is entered. It has no frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignIn {
    /// The token that the form posts, in the field `csrf`.
    pub csrf: String,
    /// The version of the program.
    pub version: String,
    /// Why the last attempt failed, or why the session ended, as a sentence.
    pub problem: Option<String>,
    /// The page to show afterwards: a path of this server, posted in the field `next`.
    pub next: String,
    /// How to get a token, as a command line: "tollgate tokens create --role admin".
    pub command: Option<String>,
}
