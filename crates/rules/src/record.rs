//! One declaration per shape of the document: what is decoded, written and described in the schema
//! all comes from the same lines.

use schemars::{Schema, json_schema};
use serde_json::{Value as Json, json};
use tollgate_document::{Field, Node, Scope};

/// A map with known fields.
pub(crate) trait Record: Sized {
    /// The record, as long as every required field can be read. A field that may be left out counts
    /// as left out when it cannot be read, and the problem is reported.
    fn read(node: &Node, scope: &mut Scope) -> Option<Self>;
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
            const FIELDS: &'static [tollgate_document::Field] = &[$(
                tollgate_document::Field {
                    name: stringify!($field),
                    about: &[$($doc),+],
                    range: $crate::record::record!(@option $($range)?),
                    pattern: $crate::record::record!(@option $($pattern)?),
                },
            )+];
            const EITHER: &'static [&'static str] = &[$($(stringify!($either)),+)?];
        }

        impl $crate::record::Record for $name {
            fn read(node: &tollgate_document::Node, scope: &mut tollgate_document::Scope) -> Option<Self> {
                let mut fields = tollgate_document::Fields::open(node, Self::FIELDS, scope)?;
                $(let $field = $crate::record::record!(@read fields $field $(= $default)?);)+
                fields.require_one_of(Self::EITHER);
                $($check(&mut fields);)?
                Some(Self { $($field: $field?,)+ })
            }
        }

        impl tollgate_document::Decode for $name {
            fn decode(node: &tollgate_document::Node, scope: &mut tollgate_document::Scope) -> Option<Self> {
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
