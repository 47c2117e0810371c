//! Finds every pattern that matches a path by walking the path, however many patterns there are.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::matching::path::{PathCase, PathMatcher, PathSegment};

/// Patterns by their segments. A path is walked once; literal and parameter branches are both
/// followed, since all patterns that match count.
#[derive(Clone, Debug)]
pub(crate) struct PathIndex<T> {
    nodes: Vec<IndexNode<T>>,
}

/// Nodes by the small letters of their literals.
type Capitals = HashMap<Box<str>, Vec<usize>, FixedState>;

/// Most nodes are the last of a pattern. Those are small and in one piece, because a walk waits for their cache lines.
#[derive(Clone, Debug)]
struct IndexNode<T> {
    /// Found when the path gets here, whatever follows.
    tails: SmallVec<[T; 4]>,
    /// Found when the path ends here.
    ends: SmallVec<[T; 2]>,
    further: Option<Box<Branches>>,
}

/// The nodes for the next segment.
#[derive(Clone, Debug, Default)]
struct Branches {
    literals: HashMap<Box<str>, usize, FixedState>,
    /// Literals with capital letters, by their small letters. Most nodes have none.
    capitals: Option<Box<Capitals>>,
    parameter: Option<usize>,
}

impl<T> Default for IndexNode<T> {
    fn default() -> Self {
        Self { tails: SmallVec::new(), ends: SmallVec::new(), further: None }
    }
}

impl Branches {
    fn note_capitals(&mut self, literal: &str, node: usize) {
        let folded = literal.to_ascii_lowercase();
        if folded != literal {
            let capitals = self.capitals.get_or_insert_default();
            capitals.entry(folded.into()).or_default().push(node);
        }
    }
}

impl<T> Default for PathIndex<T> {
    fn default() -> Self {
        Self { nodes: vec![IndexNode::default()] }
    }
}

impl<T: Copy> PathIndex<T> {
    pub(crate) fn insert(&mut self, pattern: &PathMatcher, value: T) {
        let mut at = 0;
        for segment in &pattern.segments {
            let fresh = self.nodes.len();
            let branches = self.nodes[at].further.get_or_insert_default();
            at = match segment {
                PathSegment::Literal(literal) => {
                    *branches.literals.entry(literal.clone()).or_insert(fresh)
                }
                PathSegment::Parameter => *branches.parameter.get_or_insert(fresh),
            };
            if at == fresh {
                if let PathSegment::Literal(literal) = segment {
                    branches.note_capitals(literal, fresh);
                }
                self.nodes.push(IndexNode::default());
            }
        }
        let node = &mut self.nodes[at];
        if pattern.has_tail { node.tails.push(value) } else { node.ends.push(value) }
    }

    /// Calls `found` for every pattern that matches a path in its normal form, folded.
    pub(crate) fn visit(&self, path: &str, case: PathCase, found: &mut impl FnMut(T)) {
        self.walk(0, path.strip_prefix('/').unwrap_or(path), case, found);
    }

    /// Follows both branches where there are two. No deeper than the longest pattern.
    fn walk(&self, mut at: usize, mut rest: &str, case: PathCase, found: &mut impl FnMut(T)) {
        loop {
            let node = &self.nodes[at];
            node.tails.iter().copied().for_each(&mut *found);
            if rest.is_empty() {
                node.ends.iter().copied().for_each(found);
                return;
            }
            let Some(node) = &node.further else { return };
            let (segment, after) = first_segment(rest);
            rest = after;
            if case == PathCase::Insensitive {
                for &next in node.capitals.iter().filter_map(|names| names.get(segment)).flatten() {
                    self.walk(next, rest, case, found);
                }
            }
            at = match (node.literals.get(segment), node.parameter) {
                (None, None) => return,
                (Some(&next), None) | (None, Some(next)) => next,
                (Some(&literal), Some(parameter)) => {
                    self.walk(literal, rest, case, found);
                    parameter
                }
            };
        }
    }
}

/// Splits at the first slash. Segments are short: a plain loop beats the search of the library.
fn first_segment(path: &str) -> (&str, &str) {
    match path.bytes().position(|byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, ""),
    }
}
