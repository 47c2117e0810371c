//! The settings under `refusal`: the status and body of refusals at the gateway and in forward-auth.

use http::StatusCode;
use tollgate::http::{InvalidRefusal, RefusalBody, RefusalFormat};

use super::layers::Layers;

/// Reads the settings. A template is refused where it could fail later.
pub(super) fn read(layers: &mut Layers<'_>, format: &mut RefusalFormat) {
    let (mut status, mut body, mut content_type) = (429_u64, "problem".to_owned(), None);
    layers.read_within("refusal.status", &mut status, 400..=599);
    layers.read("refusal.body", &mut body);
    layers.read("refusal.content_type", &mut content_type);
    let content_type: Option<String> = content_type;
    let template = match RefusalBody::parse(&body, content_type.as_deref()) {
        Ok(RefusalBody::Problem) => None,
        Ok(RefusalBody::Template(template)) => Some(template),
        Err(InvalidRefusal::Body(error)) => return layers.refuse("refusal.body", error),
        Err(InvalidRefusal::ContentType) => {
            let message = "it is for a text of yours in refusal.body; problem and flat have theirs";
            return layers.refuse("refusal.content_type", message);
        }
    };
    let chosen = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    if let Some(status) = chosen.filter(|status| *status != StatusCode::TOO_MANY_REQUESTS) {
        *format = std::mem::take(format).status(status);
    }
    if let Some(template) = template {
        *format = std::mem::take(format).body(template);
    }
}
