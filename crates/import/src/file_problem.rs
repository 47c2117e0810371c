//! A problem of one of several files.

use std::fmt;

use tollgate_document::Problem;

/// What is wrong with one of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The name of the file.
    pub file: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// One line: `shop.yaml: line 4, column 7: descriptors[0].key: the key is empty; write a text`.
impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.problem)
    }
}

impl std::error::Error for FileProblem {}
