//! Settings for OpenTelemetry: where traces are sent, and how many.

use http::Uri;
use http::uri::Scheme;
use serde_json::{Value as Json, json};
use tollgate_document::{Problem, Value};

use super::layers::Layers;
use super::value::{Setting, problem, unexpected};

/// Where traces are sent, and how many.
#[derive(Clone, Debug, PartialEq)]
pub struct Otlp {
    /// The collector, which takes OTLP over gRPC; without one there are no traces.
    pub endpoint: Option<String>,
    /// The share of requests that are traced if their callers have not decided, from 0 to 1.
    pub sample: f64,
    /// The name of this server in traces.
    pub service_name: String,
}

impl Default for Otlp {
    fn default() -> Self {
        Self { endpoint: None, sample: 1.0, service_name: "tollgate".to_owned() }
    }
}

pub(super) fn read(layers: &mut Layers<'_>, otlp: &mut Otlp) {
    let mut endpoint: Option<Endpoint> = None;
    layers.read("otlp.endpoint", &mut endpoint);
    otlp.endpoint = endpoint.map(|Endpoint(url)| url);
    let mut sample = Ratio(otlp.sample);
    layers.read("otlp.sample", &mut sample);
    otlp.sample = sample.0;
    layers.read("otlp.service_name", &mut otlp.service_name);
}

/// The URL of a collector.
struct Endpoint(String);

impl Setting for Endpoint {
    fn expected() -> String {
        "the URL of a collector that takes OTLP over gRPC, like http://127.0.0.1:4317".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        let url: Uri = text.parse().ok()?;
        let is_known =
            [Scheme::HTTP, Scheme::HTTPS].iter().any(|known| url.scheme() == Some(known));
        let is_bare = url.path() == "/" && url.query().is_none() && !text.contains(['@', '#']);
        (is_known && is_bare).then(|| Self(text.to_owned()))
    }

    /// A URL may contain a password, so messages do not repeat such a URL.
    fn read(value: &Value) -> Result<Self, Problem> {
        let text = value.scalar().unwrap_or_default();
        if text.contains('@') {
            return Err(problem(
                "a secret does not belong here; set the environment variable \
                 OTEL_EXPORTER_OTLP_HEADERS, and leave out what is before the @",
            ));
        }
        Self::parse(text).ok_or_else(|| unexpected(&Self::expected(), value))
    }

    fn show(&self) -> Json {
        self.0.as_str().into()
    }
}

/// A share, from 0 to 1.
pub(super) struct Ratio(pub(super) f64);

impl Setting for Ratio {
    fn expected() -> String {
        "a number from 0 to 1".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).map(Self)
    }

    fn show(&self) -> Json {
        self.0.into()
    }

    fn schema() -> Json {
        json!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}
