//! The JSON schema of policy documents, for editors and forms.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use serde_json::Value;
use tollgate_core::MAX_LIMIT;

use crate::document::PolicyDocument;

/// The schema of a whole policy, in the JSON Schema draft 2020-12.
#[must_use]
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<PolicyDocument>();
    schema.insert("title".to_owned(), "Tollgate policy".into());
    RecursiveTransform(bound_integers).transform(&mut schema);
    schema.to_value()
}

/// Replaces the name of an integer type, which means nothing to an editor, by its bounds.
fn bound_integers(schema: &mut Schema) {
    let Some(Value::String(format)) = schema.remove("format") else { return };
    let (least, most) = match format.as_str() {
        "uint64" => (0.into(), MAX_LIMIT.into()),
        "uint32" => (0.into(), u32::MAX.into()),
        "int64" => (i64::MIN.into(), i64::MAX.into()),
        _ => return,
    };
    for (name, bound) in [("minimum", least), ("maximum", most)] {
        if schema.get(name).is_none() {
            schema.insert(name.to_owned(), bound);
        }
    }
}
