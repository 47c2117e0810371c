//! An entry of a server as it came: one field a line, in their order.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::table::{Column, table};

/// The fields of a document in the order in which they came.
#[derive(Debug)]
pub(crate) struct RawFields(Vec<(String, Value)>);

impl RawFields {
    /// One field a line.
    pub(crate) fn render(&self) -> String {
        let columns = [Column::Text("field"), Column::Text("value")];
        let rows: Vec<_> =
            self.0.iter().map(|(name, value)| [name.clone(), shown(value)]).collect();
        table(columns, &rows)
    }
}

/// A text as it is; anything else as JSON.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl<'de> Deserialize<'de> for RawFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = RawFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawFields, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = entries.next_entry()? {
            fields.push(field);
        }
        Ok(RawFields(fields))
    }
}
