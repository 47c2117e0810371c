//! Settings of the catalog, for rules that are not in a file.

use serde_json::Value as Json;
use tollgate_catalog::CatalogUrl;
use tollgate_document::{Problem, Value};

use super::Settings;
use super::layers::Layers;
use super::origin::Origin;
use super::value::{Setting, problem};

/// The default copy, from which a node starts when PostgreSQL is unavailable.
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

/// Leaves the catalog out if only files of envoyproxy/ratelimit are given: they replace a service that has
/// no other rules, and writes no file.
pub(super) fn leave_out(layers: &mut Layers<'_>, settings: &mut Settings) {
    let is_chosen = layers.origin("catalog") != Origin::Default;
    let is_for_files_only = settings.envoy_config.is_some() && settings.gateway.is_none();
    if settings.rules.is_none() && is_for_files_only && !is_chosen {
        settings.has_catalog = false;
        layers.resolved("catalog", Json::Null);
    }
}

/// A URL may contain a password, so messages do not repeat it.
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
