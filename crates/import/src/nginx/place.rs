//! Where something stands in the files.

use std::fmt;
use std::sync::Arc;

use tollgate_document::Position;

/// A place in one of the files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilePosition {
    /// The name of the file.
    pub file: Arc<str>,
    /// The line and column.
    pub position: Position,
}

/// As compilers write it: `nginx.conf:14:9`.
impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.position;
        write!(f, "{}:{line}:{column}", self.file)
    }
}
