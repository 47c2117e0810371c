//! One declaration per shape of the document: what is decoded, written and described in the schema
//! all comes from the same lines.

use std::ops::RangeInclusive;

use schemars::{Schema, json_schema};
use serde_json::{Value as Json, json};

use crate::decode::{Decode, Scope, given_twice};
use crate::node::{Key, Node, Value};
use crate::number::exact;
use crate::position::Position;
use crate::spelling::closest;

/// A map with known fields.
pub(crate) trait Record: Sized {
    /// The record, as long as every required field can be read. A field that may be left out counts
    /// as left out when it cannot be read, and the problem is told.
    fn read(node: &Node, scope: &mut Scope) -> Option<Self>;
}

/// What is known of a field besides its type.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The lines of its documentation.
    pub(crate) about: &'static [&'static str],
    /// For numbers.
    pub(crate) range: Option<RangeInclusive<u64>>,
    /// For texts, as a regular expression. Editors check it by the schema, we when compiling.
    pub(crate) pattern: Option<&'static str>,
}

/// Declares a record: a field with `= default` may be left out, and is not written while it holds
/// its default. `#[range(..)]` bounds a number, `#[pattern(..)]` tells the form of a text,
/// `#[either(..)]` lists fields of which just one must be there, and `#[check(..)]` names a function
/// for whatever else there is to check.
macro_rules! record {
    (
        $(#[doc = $about:literal])+
        $(#[derive($derive:ident)])?
        $(#[either($($either:ident),+)])?
        $(#[check($check:path)])?
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[range($range:expr)])?
                $(#[pattern($pattern:literal)])?
                pub $field:ident: $type:ty $(= $default:expr)?,
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, $($derive)?)]
        pub struct $name {
            $(
                $(#[doc = $doc])+
                pub $field: $type,
            )+
        }

        impl $name {
            const FIELDS: &'static [$crate::record::Field] = &[$(
                $crate::record::Field {
                    name: stringify!($field),
                    about: &[$($doc),+],
                    range: $crate::record::record!(@option $($range)?),
                    pattern: $crate::record::record!(@option $($pattern)?),
                },
            )+];
            const EITHER: &'static [&'static str] = &[$($(stringify!($either)),+)?];
        }

        impl $crate::record::Record for $name {
            fn read(node: &$crate::node::Node, scope: &mut $crate::decode::Scope) -> Option<Self> {
                let mut fields = $crate::record::Fields::open(node, Self::FIELDS, scope)?;
                $(let $field = $crate::record::record!(@read fields $field $(= $default)?);)+
                fields.require_one_of(Self::EITHER);
                $($check(&mut fields);)?
                Some(Self { $($field: $field?,)+ })
            }
        }

        impl $crate::decode::Decode for $name {
            fn decode(node: &$crate::node::Node, scope: &mut $crate::decode::Scope) -> Option<Self> {
                let before = scope.found();
                let record = $crate::record::Record::read(node, scope)?;
                (scope.found() == before).then_some(record)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $(
                    let default: Option<$type> = $crate::record::record!(@option $($default)?);
                    if default.as_ref() != Some(&self.$field) {
                        map.serialize_entry(stringify!($field), &self.$field)?;
                    }
                )+
                map.end()
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let types = [$({
                    let default: Option<$type> = $crate::record::record!(@option $($default)?);
                    (generator.subschema_for::<$type>(), default.map(|it| serde_json::json!(it)))
                },)+];
                $crate::record::schema(&[$($about),+], Self::FIELDS, Self::EITHER, types)
            }
        }
    };

    (@option) => { None };
    (@option $value:expr) => { Some($value) };
    (@read $fields:ident $field:ident) => { $fields.required(stringify!($field)) };
    (@read $fields:ident $field:ident = $default:expr) => {
        Some($fields.optional(stringify!($field)).unwrap_or_else(|| $default))
    };
}
pub(crate) use record;

/// The fields of one map while it is being read.
pub(crate) struct Fields<'a> {
    position: Position,
    slots: Vec<Slot<'a>>,
    scope: &'a mut Scope,
}

/// A known field, and what the text has for it.
#[derive(Clone, Copy)]
struct Slot<'a> {
    field: &'static Field,
    given: Option<(&'a Key, &'a Node)>,
}

impl<'a> Fields<'a> {
    /// Sorts the entries of a map to the known fields, and tells those that are none.
    pub(crate) fn open(
        node: &'a Node,
        known: &'static [Field],
        scope: &'a mut Scope,
    ) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            scope.expected(node, "a map", &list_of(known));
            return None;
        };
        let mut slots = known.iter().map(|field| Slot { field, given: None }).collect::<Vec<_>>();
        for (key, value) in entries {
            if scope.is_full() {
                break;
            }
            match slots.iter_mut().find(|slot| slot.field.name == key.text) {
                None => unknown_field(key, known, scope),
                Some(Slot { given: Some((first, _)), .. }) => scope
                    .in_field(&key.text, |scope| given_twice(first.position, key.position, scope)),
                Some(slot) => slot.given = Some((key, value)),
            }
        }
        Some(Self { position: node.position, slots, scope })
    }

    /// The value of a field that must be there.
    pub(crate) fn required<T: Decode>(&mut self, name: &str) -> Option<T> {
        let Slot { field, given } = self.slot(name)?;
        if let Some((_, node)) = given {
            return self.decode(field, node);
        }
        let about = field.about.first().unwrap_or(&"").trim().trim_end_matches('.');
        let advice = format!("add {name}: {about}");
        self.problem(name, self.position, "this required field is missing", &advice);
        None
    }

    /// The value of a field that may be missing, which is what `null` means too.
    pub(crate) fn optional<T: Decode>(&mut self, name: &str) -> Option<T> {
        let field = self.slot(name)?.field;
        let node = self.get(name)?;
        self.decode(field, node)
    }

    /// The node of a field, unless it is missing or null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Node> {
        let (_, node) = self.slot(name)?.given?;
        (!matches!(node.value, Value::Null)).then_some(node)
    }

    /// Checks that just one of these fields is there; an empty list asks for nothing.
    pub(crate) fn require_one_of(&mut self, names: &[&str]) {
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

    /// Tells a problem of one of the fields.
    pub(crate) fn problem(&mut self, name: &str, at: Position, message: &str, advice: &str) {
        self.scope.in_field(name, |scope| scope.problem(at, message, advice));
    }

    fn slot(&self, name: &str) -> Option<Slot<'a>> {
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

fn unknown_field(key: &Key, known: &[Field], scope: &mut Scope) {
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

/// The schema of a record, from its fields and the schema and default of each one's type. A field
/// without a default is required.
pub(crate) fn schema(
    about: &[&str],
    fields: &[Field],
    either: &[&str],
    types: impl IntoIterator<Item = (Schema, Option<Json>)>,
) -> Schema {
    let mut properties = serde_json::Map::new();
    let mut required = Vec::new();
    for (field, (mut schema, default)) in fields.iter().zip(types) {
        match default {
            Some(Json::Null) => {}
            Some(default) => {
                schema.insert("default".to_owned(), default);
            }
            None => required.push(field.name),
        }
        if let Some(range) = &field.range {
            schema.insert("minimum".to_owned(), (*range.start()).into());
            schema.insert("maximum".to_owned(), (*range.end()).into());
        }
        if let Some(pattern) = field.pattern {
            schema.insert("pattern".to_owned(), pattern.into());
        }
        schema.insert("description".to_owned(), describe(field.about).into());
        properties.insert(field.name.to_owned(), schema.to_value());
    }
    let mut schema = json_schema!({
        "description": describe(about),
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    if !either.is_empty() {
        let one_of = either.iter().map(|name| json!({ "required": [name] })).collect();
        schema.insert("oneOf".to_owned(), one_of);
    }
    schema
}

/// The lines of a doc comment as one text.
pub(crate) fn describe(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}
