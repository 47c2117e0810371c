//! Settings of the versions of the HTTP API: from when on a version is deprecated, and when it ends.

use tollgate::Timestamp;
use tollgate::rules::parse_time;

use super::layers::Layers;

/// The longest link.
const MAX_LINK_BYTES: usize = 2_000;

/// What responses of a version of the HTTP API say about its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionNotice {
    /// Since when, or from when on, it is deprecated.
    pub deprecated_at: Option<Timestamp>,
    /// When it ends.
    pub sunset_at: Option<Timestamp>,
    /// A page about what to use instead.
    pub link: Option<String>,
}

/// Reads the settings under `api.v1`.
pub(super) fn read(layers: &mut Layers<'_>, v1: &mut VersionNotice) {
    v1.deprecated_at = read_time(layers, "api.v1.deprecated_at");
    v1.sunset_at = read_time(layers, "api.v1.sunset_at");
    layers.read_if("api.v1.link", &mut v1.link, |link| link.as_deref().and_then(not_a_link));
    // RFC 9745 wants this order, and a caller could not make sense of another.
    if v1.sunset_at < v1.deprecated_at && v1.sunset_at.is_some() {
        let message = "a version does not end before it is deprecated; write a later time";
        layers.refuse("api.v1.sunset_at", message);
    }
    if v1.link.is_some() && v1.deprecated_at.is_none() && v1.sunset_at.is_none() {
        let message = "it is about a deprecated version; set api.v1.deprecated_at too";
        layers.refuse("api.v1.link", message);
    }
}

fn read_time(layers: &mut Layers<'_>, name: &'static str) -> Option<Timestamp> {
    let mut text: Option<String> = None;
    layers.read_if(name, &mut text, |text| {
        let text = text.as_deref()?;
        let is_time = parse_time(text).is_some();
        (!is_time).then(|| format!("expected a time like 2027-01-31T00:00:00Z, found {text:?}"))
    });
    text.as_deref().and_then(parse_time)
}

/// The link must fit between angle brackets in a header field.
fn not_a_link(text: &str) -> Option<String> {
    let is_url = text.starts_with("https://") || text.starts_with("http://");
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(&byte));
    let is_link = is_url && is_plain && text.len() <= MAX_LINK_BYTES;
    (!is_link).then(|| "expected a URL like https://docs.example/api-v2".to_owned())
}
