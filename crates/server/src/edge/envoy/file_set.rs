//! The files of envoyproxy/ratelimit in force, and what is known about their limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value as Json;
use tollgate_document::{Node, Value};
use tollgate_import::envoy::{EnvoyConfig, FileLimit};

use super::values::Values;

/// All files in force.
#[derive(Debug, Default)]
pub(crate) struct FileSet {
    pub(crate) config: EnvoyConfig,
    pub(crate) values: Arc<Values>,
    /// The metadata of each limit, as JSON.
    metadata: Box<[Option<Json>]>,
    /// Which limits were peeked at; the last is that of limits that requests carry.
    peeked: Box<[AtomicBool]>,
}

impl FileSet {
    pub(super) fn new(config: EnvoyConfig, values: Arc<Values>) -> Self {
        let peeked = (0..=config.limits().len()).map(|_| AtomicBool::new(false)).collect();
        let metadata =
            config.limits().iter().map(|limit| limit.metadata.as_ref().and_then(to_json)).collect();
        Self { config, values, metadata, peeked }
    }

    /// The metadata of several limits in one: of two values for the same field, the first stays.
    pub(super) fn metadata_of(&self, limits: impl Iterator<Item = usize>) -> Option<Json> {
        let mut all = None;
        for metadata in limits.filter_map(|limit| self.metadata.get(limit)?.as_ref()) {
            match &mut all {
                None => all = Some(metadata.clone()),
                Some(all) => merge(all, metadata),
            }
        }
        all
    }

    /// A limit by its index; `None` for one that a request carries.
    pub(super) fn limit(&self, index: Option<usize>) -> Option<&FileLimit> {
        self.config.limits().get(index?)
    }

    /// Whether a limit was peeked at.
    pub(super) fn is_peeked(&self, limit: Option<usize>) -> bool {
        let place = limit.unwrap_or(self.config.limits().len());
        self.peeked.get(place).is_some_and(|peeked| peeked.load(Ordering::Relaxed))
    }

    /// Notes that a limit was peeked at.
    pub(super) fn note_peek(&self, limit: Option<usize>) {
        let place = limit.unwrap_or(self.config.limits().len());
        if let Some(peeked) = self.peeked.get(place) {
            peeked.store(true, Ordering::Relaxed);
        }
    }

    /// The name of a limit in responses to Envoy, which shows it to clients; empty if the file has none.
    pub(super) fn name_of(&self, limit: usize) -> &str {
        self.config.limits().get(limit).and_then(|limit| limit.name.as_deref()).unwrap_or_default()
    }
}

/// Adds the fields that are not there yet.
fn merge(all: &mut Json, more: &Json) {
    let (Json::Object(all), Json::Object(more)) = (all, more) else { return };
    for (name, value) in more {
        match all.get_mut(name) {
            Some(known) => merge(known, value),
            None => {
                all.insert(name.clone(), value.clone());
            }
        }
    }
}

/// The metadata of a limit as JSON; `None` if it is no map.
fn to_json(node: &Node) -> Option<Json> {
    fn value(node: &Node) -> Json {
        match &node.value {
            Value::Null => Json::Null,
            Value::Bool(is_true) => (*is_true).into(),
            Value::Number(text) => {
                text.parse::<f64>().map_or_else(|_| text.as_str().into(), Json::from)
            }
            Value::String(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(value).collect(),
            Value::Map(entries) => {
                entries.iter().map(|(key, node)| (key.text.clone(), value(node))).collect()
            }
        }
    }
    matches!(node.value, Value::Map(_)).then(|| value(node))
}
