//! A document together with the text it came from, so that whatever is found wrong later can still
//! be shown where it was written.

use std::collections::HashMap;

use tollgate_document::{
    Format, MAX_PROBLEMS, MapKey, Node, Problem, Scope, Segment, Value, nearest, printable, read,
    read_as, segments,
};

use crate::compile::flaw::Flaw;
use crate::compile::partial;
use crate::document::PolicyDocument;
use crate::record::Record;

/// How many characters a message has at most, what it quotes included.
const MAX_MESSAGE_CHARS: usize = 1_000;

/// A document as read: what could be read of it, where each part stood, and what was wrong.
///
/// Items of a list that could not be read are missing from `document`, so an item may have a
/// smaller index there than in the text. [`Source::problem`] takes paths by the indices of
/// `document`; the paths of [`Problem`]s always have the indices of the text.
#[derive(Clone, Debug)]
pub struct Source {
    /// What could be read.
    pub document: PolicyDocument,
    /// What was wrong with the text, in its order.
    pub problems: Vec<Problem>,
    /// The text as nodes; none if the document did not come from a text.
    root: Option<Node>,
    /// Which items of which list are missing from `document`, by the path of the list.
    unread: HashMap<String, Vec<usize>>,
    /// The rules and tiers that could not be read in the texts that this document was put together from.
    unread_parts: UnreadNames,
}

/// The names of rules and tiers that could not be read.
#[derive(Clone, Debug, Default)]
struct UnreadNames {
    rules: Vec<String>,
    tiers: Vec<String>,
}

impl Source {
    /// Reads a text of either format: JSON if it is JSON, else YAML.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self::from_root(read(text))
    }

    /// Reads a text of that format.
    #[must_use]
    pub fn parse_as(text: &str, format: Format) -> Self {
        Self::from_root(read_as(text, format))
    }

    /// Reads one rule on its own, as from a command line, into a document with just that rule.
    /// `rule_id` and `identifier_type` may be left out, for the given ones.
    #[must_use]
    pub fn parse_rule(text: &str, default_rule_id: &str, default_identifier: &str) -> Self {
        Self::from_root(read(text).map(|mut rule| {
            let position = rule.position;
            if let Value::Map(entries) = &mut rule.value {
                let defaults =
                    [("rule_id", default_rule_id), ("identifier_type", default_identifier)];
                for (name, default) in defaults {
                    if !entries.iter().any(|(key, _)| key.text == name) {
                        let value = Value::String(default.to_owned());
                        let key = MapKey { text: name.to_owned(), position };
                        entries.push((key, Node { position, value }));
                    }
                }
            }
            let key = MapKey { text: "rules".to_owned(), position };
            let rules = Node { position, value: Value::List(vec![rule]) };
            Node { position, value: Value::Map(vec![(key, rules)]) }
        }))
    }

    /// Reads one item on its own, as from the body of a call, into a document that has just that item
    /// in that list, such as `rules` or `whitelist`.
    #[must_use]
    pub fn parse_item(text: &str, list: &str) -> Self {
        Self::parse_item_as(text, list, Format::Json)
    }

    /// Reads one item on its own in that format, as from an editor.
    #[must_use]
    pub fn parse_item_as(text: &str, list: &str, format: Format) -> Self {
        Self::from_root(read_as(text, format).map(|item| {
            let position = item.position;
            let key = MapKey { text: list.to_owned(), position };
            let items = Node { position, value: Value::List(vec![item]) };
            Node { position, value: Value::Map(vec![(key, items)]) }
        }))
    }

    /// A document that came from no text: its problems have no positions.
    #[must_use]
    pub fn from_document(document: PolicyDocument) -> Self {
        Self {
            document,
            problems: Vec::new(),
            root: None,
            unread: HashMap::new(),
            unread_parts: UnreadNames::default(),
        }
    }

    /// A document that was put together from several texts. Its problems have no positions. Naming a
    /// rule or tier that could not be read in one of the texts is not another mistake.
    #[must_use]
    pub fn from_parts<'a>(
        document: PolicyDocument,
        parts: impl IntoIterator<Item = &'a Self>,
    ) -> Self {
        let mut unread_parts = UnreadNames::default();
        for part in parts {
            unread_parts.rules.extend(part.unread_rules().map(str::to_owned));
            unread_parts.tiers.extend(part.unread_tiers().map(str::to_owned));
        }
        Self { unread_parts, ..Self::from_document(document) }
    }

    /// False if nothing of the text could be read: it is neither YAML nor JSON.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.root.is_some() || self.problems.is_empty()
    }

    fn from_root(root: Result<Node, Problem>) -> Self {
        let root = match root {
            Ok(root) => root,
            Err(problem) => {
                let empty = Self::from_document(PolicyDocument::default());
                return Self { problems: vec![problem], ..empty };
            }
        };
        let mut scope = Scope::default();
        let document = match root.value {
            Value::Null => {
                let advice = "for a policy without rules, write rules: []";
                scope.problem(root.position, "the document is empty", advice);
                None
            }
            _ => PolicyDocument::read(&root, &mut scope),
        };
        let (mut problems, unread) = scope.finish();
        for index in unread.get("rules").into_iter().flatten() {
            let Some(rule) = root.get("rules").and_then(|rules| rules.item(*index)) else {
                continue;
            };
            for flaw in partial::flaws(rule, *index, &problems) {
                if problems.len() >= MAX_PROBLEMS {
                    break;
                }
                let Flaw { field, message, advice } = flaw.within(&format!("rules[{index}]"));
                let position = nearest(&root, &segments(&field));
                let problem = Problem::new(field, readable(message)).with_advice(advice);
                problems.push(problem.at(position));
            }
        }
        for problem in &mut problems {
            problem.rule = rule_of(&root, &problem.path);
        }
        problems.sort_by_key(|problem| (problem.position.is_none(), problem.position));
        let empty = Self::from_document(document.unwrap_or_default());
        Self { problems, root: Some(root), unread, ..empty }
    }

    /// An error in the field at `path`, like `rules[0].applies_to.methods[1]`, where the first index
    /// is that of `document`. Keys that are free text stand in brackets: `rules[0].costs["/a"]`.
    /// The problem is placed at the field, or at the nearest thing around it that was written.
    #[must_use]
    pub fn problem(&self, path: &str, message: impl Into<String>) -> Problem {
        let mut segments = segments(path);
        let mut rule = None;
        let mut path = path.to_owned();
        if let [Segment::Key(list), Segment::Index(index), ..] = segments.as_mut_slice() {
            if list == "rules" {
                rule = self.document.rules.get(*index).map(|rule| printable(&rule.rule_id));
            }
            let in_text = self.index_in_text(list, *index);
            path = path.replacen(&format!("[{index}]"), &format!("[{in_text}]"), 1);
            *index = in_text;
        }
        let position = self.root.as_ref().map(|root| nearest(root, &segments));
        Problem { rule, position, ..Problem::new(path, readable(message.into())) }
    }

    /// The ids of rules that could not be read. They are missing from `document`, so that naming
    /// one of them elsewhere is not another mistake.
    pub fn unread_rules(&self) -> impl Iterator<Item = &str> {
        let parts = self.unread_parts.rules.iter().map(String::as_str);
        self.unread_names("rules", "rule_id").chain(parts)
    }

    /// The names of tiers that could not be read; see [`Source::unread_rules`].
    pub fn unread_tiers(&self) -> impl Iterator<Item = &str> {
        let parts = self.unread_parts.tiers.iter().map(String::as_str);
        self.unread_names("tiers", "tier").chain(parts)
    }

    fn unread_names(&self, list: &str, name: &str) -> impl Iterator<Item = &str> {
        let items = self.root.as_ref().and_then(|root| root.get(list));
        let unread = self.unread.get(list).map_or(&[][..], Vec::as_slice);
        unread.iter().filter_map(move |index| items?.item(*index)?.get(name)?.as_str())
    }

    /// The index in the text of the item at `index` in a list of `document`.
    fn index_in_text(&self, list: &str, index: usize) -> usize {
        let unread = self.unread.get(list).map_or(&[][..], Vec::as_slice);
        unread.iter().fold(index, |index, unread| if *unread <= index { index + 1 } else { index })
    }
}

/// A message that may quote what was written, safe to print and short enough to read.
fn readable(message: String) -> String {
    let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) else {
        if message.chars().any(char::is_control) {
            return message.chars().map(escaped).collect();
        }
        return message;
    };
    message[..end].chars().map(escaped).chain(["…".to_owned()]).collect()
}

fn escaped(c: char) -> String {
    if c.is_control() { c.escape_default().to_string() } else { c.to_string() }
}

/// The id of the rule that a path of the text is in.
fn rule_of(root: &Node, path: &str) -> Option<String> {
    let index = path.strip_prefix("rules[")?.split_once(']')?.0.parse().ok()?;
    let id = root.get("rules")?.item(index)?.get("rule_id")?.as_str()?;
    Some(printable(id))
}
