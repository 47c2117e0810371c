//! The fields of a map: known and unknown, required and optional ones.

use std::ops::RangeInclusive;

use crate::decode::Decode;
use crate::node::{MapKey, Node, Value};
use crate::number::exact;
use crate::position::Position;
use crate::scope::Scope;
use crate::spelling::closest;

/// What is known of a field besides its type.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The lines of its documentation.
    pub about: &'static [&'static str],
    /// The bounds of a number.
    pub range: Option<RangeInclusive<u64>>,
    /// The form of a text as a regular expression. Editors check it by the schema, compiling checks it here.
    pub pattern: Option<&'static str>,
}

/// The fields of one map while it is being read.
#[derive(Debug)]
pub struct Fields<'a> {
    position: Position,
    slots: Vec<FieldSlot<'a>>,
    scope: &'a mut Scope,
}

/// A known field, and what the text has for it.
#[derive(Clone, Copy, Debug)]
struct FieldSlot<'a> {
    field: &'static Field,
    given: Option<(&'a MapKey, &'a Node)>,
}

impl<'a> Fields<'a> {
    /// Sorts the entries of a map to the known fields, and reports unknown ones.
    pub fn open(node: &'a Node, known: &'static [Field], scope: &'a mut Scope) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            scope.expected(node, "a map", &list_of(known));
            return None;
        };
        let mut slots =
            known.iter().map(|field| FieldSlot { field, given: None }).collect::<Vec<_>>();
        for (key, value) in entries {
            if scope.is_full() {
                break;
            }
            match slots.iter_mut().find(|slot| slot.field.name == key.text) {
                None => unknown_field(key, known, scope),
                Some(FieldSlot { given: Some((first, _)), .. }) => scope
                    .in_field(&key.text, |scope| scope.given_twice(first.position, key.position)),
                Some(slot) => slot.given = Some((key, value)),
            }
        }
        Some(Self { position: node.position, slots, scope })
    }

    /// The value of a field that must be there.
    pub fn required<T: Decode>(&mut self, name: &str) -> Option<T> {
        let FieldSlot { field, given } = self.slot(name)?;
        if let Some((_, node)) = given {
            return self.decode(field, node);
        }
        let about: Vec<&str> = field.about.iter().map(|line| line.trim()).collect();
        let advice = format!("add {name}: {}", about.join(" ").trim_end_matches('.'));
        self.problem(name, self.position, "this required field is missing", &advice);
        None
    }

    /// The value of a field that may be missing, which is what `null` means too.
    pub fn optional<T: Decode>(&mut self, name: &str) -> Option<T> {
        let field = self.slot(name)?.field;
        let node = self.get(name)?;
        self.decode(field, node)
    }

    /// The node of a field, unless it is missing or null.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a Node> {
        let (_, node) = self.slot(name)?.given?;
        (!matches!(node.value, Value::Null)).then_some(node)
    }

    /// Checks that just one of these fields is there; an empty list always holds.
    pub fn require_one_of(&mut self, names: &[&str]) {
        let Some(first) = names.first() else { return };
        let advice = format!("give one of {}", names.join(" and "));
        let given = |name| Some((name, self.get(name)?.position));
        let given = names.iter().copied().filter_map(given).collect::<Vec<_>>();
        match given.as_slice() {
            [] => {
                let message = format!("{} is missing", names.join(" or "));
                self.problem(first, self.position, &message, &advice);
            }
            [_] => {}
            [(earlier, _), (name, position), ..] => {
                self.problem(name, *position, &format!("{earlier} is given too"), &advice);
            }
        }
    }

    /// Adds a problem of one of the fields.
    pub fn problem(&mut self, name: &str, at: Position, message: &str, advice: &str) {
        self.scope.in_field(name, |scope| scope.problem(at, message, advice));
    }

    fn slot(&self, name: &str) -> Option<FieldSlot<'a>> {
        self.slots.iter().find(|slot| slot.field.name == name).copied()
    }

    fn decode<T: Decode>(&mut self, field: &Field, node: &Node) -> Option<T> {
        self.scope.in_field(field.name, |scope| {
            let value = T::decode(node, scope)?;
            match &field.range {
                Some(range) if !is_within(node, range) => {
                    scope.out_of_range(node, range.start(), range.end());
                    None
                }
                _ => Some(value),
            }
        })
    }
}

/// Whether the number in the node, which is known to be one, is in the range.
fn is_within(node: &Node, range: &RangeInclusive<u64>) -> bool {
    let Value::Number(text) = &node.value else { return true };
    let millionths = |bound: &u64| u128::from(*bound) * 1_000_000;
    exact(text, 6).is_ok_and(|number| {
        let (least, most) = (millionths(range.start()), millionths(range.end()));
        (least..=most).contains(&number.magnitude)
    })
}

fn unknown_field(key: &MapKey, known: &[Field], scope: &mut Scope) {
    let advice = guess(&key.text, known);
    scope.in_field(&key.text, |scope| {
        scope.problem(key.position, "there is no such field", advice);
    });
}

fn guess(name: &str, known: &[Field]) -> String {
    match closest(name, known.iter().map(|field| field.name)) {
        Some(name) => format!("did you mean {name}?"),
        None => list_of(known),
    }
}

fn list_of(known: &[Field]) -> String {
    let names = known.iter().map(|field| field.name).collect::<Vec<_>>();
    format!("the fields are {}", names.join(", "))
}
