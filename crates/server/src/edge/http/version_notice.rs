//! The header fields that announce the end of a version of the API: `Deprecation` (RFC 9745), `Sunset` (RFC 8594), and
//! `Link` to a page about it.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use jiff::fmt::rfc2822::DateTimePrinter;
use tollgate::Timestamp;

use super::handlers::authorize;
use crate::settings::VersionNotice;

const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// The fields of one version.
#[derive(Clone, Debug, Default)]
pub(crate) struct VersionFields(Vec<(HeaderName, HeaderValue)>);

impl VersionFields {
    /// The fields of version 1; `None` if nothing is announced.
    pub(crate) fn of(notice: &VersionNotice) -> Option<Self> {
        let VersionNotice { deprecated_at, sunset_at, link } = notice;
        let mut fields = Vec::new();
        let mut add = |name: HeaderName, value: String| {
            // Times, and a link that was checked with the settings, are valid values.
            fields.extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
        };
        if let Some(at) = deprecated_at {
            add(DEPRECATION, format!("@{}", at.as_micros() / 1_000_000));
        }
        if let Some(date) = sunset_at.and_then(http_date) {
            add(SUNSET, date);
        }
        let relations = [("deprecation", deprecated_at.is_some()), ("sunset", sunset_at.is_some())];
        for (relation, _) in relations.into_iter().filter(|(_, is_announced)| *is_announced) {
            if let Some(link) = link {
                add(header::LINK, format!("<{link}>; rel=\"{relation}\""));
            }
        }
        (!fields.is_empty()).then_some(Self(fields))
    }

    /// Whether a path belongs to the version. Forward-auth is left out: its responses go to end clients, who do not
    /// call the API.
    pub(crate) fn cover(path: &str) -> bool {
        let is_under = |prefix: &str| path.starts_with(prefix);
        (is_under("/api/v1/") || is_under("/admin/api/v1/")) && !is_under(authorize::PATH)
    }

    /// Adds the fields to a response. Pages of lists have a `Link` already.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0 {
            headers.append(name, value.clone());
        }
    }
}

/// A time as HTTP writes it: `Sun, 31 Jan 2027 00:00:00 GMT`. Rounded down, so that callers do not rely on the API for too long.
fn http_date(moment: Timestamp) -> Option<String> {
    let second = i64::try_from(moment.as_micros() / 1_000_000).ok()?;
    let moment = jiff::Timestamp::from_second(second).ok()?;
    DateTimePrinter::new().timestamp_to_rfc9110_string(&moment).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(
        deprecated_at: Option<u64>,
        sunset_at: Option<u64>,
        link: Option<&str>,
    ) -> Vec<String> {
        let notice = VersionNotice {
            deprecated_at: deprecated_at.map(Timestamp::from_secs),
            sunset_at: sunset_at.map(Timestamp::from_secs),
            link: link.map(str::to_owned),
        };
        let fields = VersionFields::of(&notice).unwrap_or_default().0;
        fields
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
            .collect()
    }

    /// The examples of RFC 9745 and RFC 8594.
    #[test]
    fn fields_are_written_as_the_standards_say() {
        assert_eq!(fields(Some(1_688_169_599), None, None), ["deprecation: @1688169599"]);
        let sunset = "sunset: Mon, 31 Dec 2018 23:59:59 GMT";
        assert_eq!(fields(None, Some(1_546_300_799), None), [sunset]);
        assert_eq!(
            fields(Some(1), Some(2), Some("https://e.example/")),
            [
                "deprecation: @1",
                "sunset: Thu, 01 Jan 1970 00:00:02 GMT",
                "link: <https://e.example/>; rel=\"deprecation\"",
                "link: <https://e.example/>; rel=\"sunset\"",
            ]
        );
        assert!(VersionFields::of(&VersionNotice::default()).is_none());
    }

    #[test]
    fn responses_to_end_clients_and_probes_are_not_about_the_version() {
        for (path, is_covered) in [
            ("/api/v1/rate-limit/check", true),
            ("/admin/api/v1/rate-limits/rules", true),
            ("/api/v1/rate-limit/authorize", false),
            ("/api/v1/rate-limit/authorize/orders", false),
            ("/api/v2/rules", false),
            ("/health/live", false),
            ("/json", false),
        ] {
            assert_eq!(VersionFields::cover(path), is_covered, "{path}");
        }
    }
}
