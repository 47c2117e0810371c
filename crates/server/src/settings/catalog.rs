//! Where rules are, if not in a file: settings of the catalog.

use serde_json::Value as Json;
use tollgate_catalog::CatalogUrl;
use tollgate_document::{Problem, Value};

use super::Settings;
use super::layers::Layers;
use super::value::{Setting, problem};

/// What a node starts from when PostgreSQL is away.
const COPY: &str = "tollgate-copy.db";

pub(super) fn read(layers: &mut Layers<'_>, settings: &mut Settings) {
    let mut catalog = None;
    layers.read("catalog", &mut catalog);
    if catalog.is_some() && settings.rules.is_some() {
        let message = "rules are in a file (rules) or in a catalog, not in both; choose one";
        layers.refuse("catalog", message);
    }
    settings.catalog = catalog.unwrap_or_default();
    layers.resolved("catalog", settings.catalog.show());
    layers.read("catalog_copy", &mut settings.catalog_copy);
    if !settings.catalog.is_shared() {
        if settings.catalog_copy.is_some() {
            let message = "a catalog that is a file needs no copy on this machine; leave it out";
            layers.refuse("catalog_copy", message);
        }
    } else if settings.catalog_copy.is_none() {
        settings.catalog_copy = Some(COPY.into());
        layers.resolved("catalog_copy", settings.catalog_copy.show());
    }
}

/// A URL may hold a password: what was found is not repeated.
impl Setting for CatalogUrl {
    fn expected() -> String {
        "sqlite:FILE, or the URL of a PostgreSQL".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn read(value: &Value) -> Result<Self, Problem> {
        let text = value.scalar().ok_or_else(<Self as Setting>::expected);
        text.and_then(str::parse).map_err(problem)
    }

    fn show(&self) -> Json {
        self.to_string().into()
    }
}
