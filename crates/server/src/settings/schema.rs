//! The JSON schema of the settings file, for editors and checks before a deployment. The calls that read
//! the settings also create it, so it cannot differ from them.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::about::about;
use super::layers::Layers;
use super::{Settings, jwt, names};

/// A setting as the schema describes it.
pub(super) struct Property {
    pub(super) name: &'static str,
    /// The schema of its type.
    pub(super) schema: Json,
    /// Its value if it is not set; null if there is none.
    pub(super) default: Json,
    /// A description of valid values.
    pub(super) expected: String,
}

impl Settings {
    /// The schema of the settings file, in the JSON Schema draft 2020-12. Secrets are not in it: they
    /// do not belong in the file.
    #[must_use]
    pub fn schema() -> Json {
        // Settings of signed tokens are read if there is a key to verify them with.
        let environment = BTreeMap::from([(jwt::SECRET.variable.to_owned(), "-".to_owned())]);
        let mut layers = Layers::new(&[], &environment, None);
        names::read_all(&mut layers, &mut Self::default());
        layers.schema()
    }
}

/// The type of a setting whose value is in a range. Only numbers can be compared by a schema.
pub(super) fn bounded(mut schema: Json, least: &Json, most: &Json) -> Json {
    if least.is_number() {
        schema["minimum"] = least.clone();
        schema["maximum"] = most.clone();
    }
    schema
}

/// The schema of all settings, those with a dot in their name in groups.
pub(super) fn schema(properties: Vec<Property>) -> Json {
    let mut root = group();
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "Tollgate settings".into();
    for Property { name, mut schema, default, expected } in properties {
        if !default.is_null() {
            schema["default"] = default;
        }
        schema["description"] = format!("{} Write {expected}.", about(name)).into();
        let (groups, last) = name.rsplit_once('.').unwrap_or(("", name));
        let mut parent = &mut root;
        for part in groups.split('.').filter(|part| !part.is_empty()) {
            parent = &mut parent["properties"][part];
            if parent.is_null() {
                *parent = group();
            }
        }
        parent["properties"][last] = schema;
    }
    root
}

/// A group without settings. A group may be empty in the file, which is null.
fn group() -> Json {
    json!({ "type": ["object", "null"], "properties": {}, "additionalProperties": false })
}
