//! The settings under `refusal`: the status and body of refusals at the gateway and in forward-auth.

use http::StatusCode;
use tollgate::http::{RefusalFormat, RefusalTemplate};

use super::layers::Layers;

/// The content type of a template that does not set one.
const DEFAULT_CONTENT_TYPE: &str = "application/json";

/// Reads the settings. A template is refused where it could fail later.
pub(super) fn read(layers: &mut Layers<'_>, format: &mut RefusalFormat) {
    let (mut status, mut body, mut content_type) = (429_u64, "problem".to_owned(), None);
    layers.read_within("refusal.status", &mut status, 400..=599);
    layers.read("refusal.body", &mut body);
    layers.read("refusal.content_type", &mut content_type);
    let content_type: Option<String> = content_type;
    let template = match &*body {
        "problem" => None,
        "flat" => Some(RefusalTemplate::flat()),
        text => {
            let content_type = content_type.as_deref().unwrap_or(DEFAULT_CONTENT_TYPE);
            match RefusalTemplate::parse(text, content_type) {
                Ok(template) => Some(template),
                Err(error) => return layers.refuse("refusal.body", error),
            }
        }
    };
    if content_type.is_some() && matches!(&*body, "problem" | "flat") {
        let message = "it is for a text of yours in refusal.body; problem and flat have theirs";
        return layers.refuse("refusal.content_type", message);
    }
    let chosen = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    if let Some(status) = chosen.filter(|status| *status != StatusCode::TOO_MANY_REQUESTS) {
        *format = std::mem::take(format).status(status);
    }
    if let Some(template) = template {
        *format = std::mem::take(format).body(template);
    }
}
