//! Documents that people write: YAML and JSON in one tree with positions, and every problem with its
//! path, position and advice.
//!
//! [`read`] makes a [`Node`] of a text. A type that implements [`Decode`] is read from a node; what
//! is wrong goes into a [`Scope`], so that all problems of a document are reported at once.
//!
//! ```
//! use tollgate_document::{Decode as _, Scope, read};
//!
//! let root = read("limits: [5, many]").expect("it is YAML");
//! let mut scope = Scope::default();
//! let limits = root.get("limits").expect("it is there");
//! scope.in_field("limits", |scope| Vec::<u64>::decode(limits, scope));
//! let (problems, _) = scope.finish();
//! let expected = "line 1, column 13: limits[1]: expected a whole number, found \"many\"";
//! assert!(problems[0].to_string().starts_with(expected));
//! ```
#![forbid(unsafe_code)]

mod decode;
mod fields;
mod format;
mod json;
mod node;
mod number;
mod path;
mod position;
mod problem;
mod scope;
mod spelling;
mod yaml;

pub use decode::{Decode, decode_choice, fixed_point};
pub use fields::{Field, Fields};
pub use format::{Format, read, read_as};
pub use node::{MapKey, Node, Value, printable, quote};
pub use path::{Segment, nearest, position_of, segments};
pub use position::Position;
pub use problem::{Problem, Severity};
pub use scope::{MAX_PROBLEMS, Scope, more_problems};
pub use spelling::{closest, edits};
pub use yaml::read_as_yaml_v2;
