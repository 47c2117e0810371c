//! Removes header fields of clients that only proxies may write, and spellings that a service would read as another
//! field.
//!
//! Servers that turn fields into variables (CGI, WSGI, PHP) read `X_API_Key` and `X-API-Key` as the same one. Rules
//! have matched the latter only, so the former is removed, in trailers too.

use http::header::{HeaderMap, HeaderName};

use crate::config::GatewayConfig;

/// Fields that some services take for the path of the request.
const REWRITES: [HeaderName; 2] =
    [HeaderName::from_static("x-original-url"), HeaderName::from_static("x-rewrite-url")];

/// Which fields are forwarded.
#[derive(Debug, Default)]
pub(crate) struct FieldGuard {
    /// Fields besides those for forwarding that only trusted proxies may write.
    proxy_fields: Vec<HeaderName>,
    /// Fields that identify clients.
    credential_fields: Vec<HeaderName>,
    /// Whether trusted proxies may write [`REWRITES`].
    keeps_rewrites: bool,
}

impl FieldGuard {
    pub(crate) fn new(config: &GatewayConfig) -> Self {
        Self {
            proxy_fields: config.proxy_fields.clone(),
            credential_fields: config.credential_fields.clone(),
            keeps_rewrites: config.keeps_rewrites,
        }
    }

    /// Removes from the request head what the peer may not write.
    pub(crate) fn strip_head(&self, fields: &mut HeaderMap, is_trusted: bool) {
        let may_write = |name: &HeaderName| {
            if is_forwarding(name.as_str()) || self.proxy_fields.contains(name) {
                return is_trusted;
            }
            if REWRITES.contains(name) {
                return is_trusted && self.keeps_rewrites;
            }
            self.credential_fields.contains(name) || !self.is_guarded(name)
        };
        remove(fields, |name| !may_write(name));
    }

    /// Removes from the request trailers what belongs in its head.
    pub(crate) fn strip_trailers(&self, fields: &mut HeaderMap) {
        remove(fields, |name| self.is_guarded(name));
    }

    /// Whether some server reads this as a field that is guarded here.
    fn is_guarded(&self, name: &HeaderName) -> bool {
        let mut guarded = self.proxy_fields.iter().chain(&self.credential_fields);
        guarded.any(|own| is_same_variable(own, name))
            || REWRITES.iter().any(|own| is_same_variable(own, name))
            || is_forwarding_variable(name.as_str())
    }
}

/// Whether a field is about forwarding.
fn is_forwarding(name: &str) -> bool {
    name == "forwarded" || name == "x-real-ip" || name.starts_with("x-forwarded-")
}

/// Whether some server reads a name as that of a field about forwarding.
fn is_forwarding_variable(name: &str) -> bool {
    if name.contains('_') { is_forwarding(&name.replace('_', "-")) } else { is_forwarding(name) }
}

/// Whether two names are equal to servers that do not distinguish `_` from `-`.
pub(crate) fn is_same_variable(one: &HeaderName, other: &HeaderName) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    let (one, other) = (one.as_str(), other.as_str());
    one.len() == other.len() && one.bytes().map(plain).eq(other.bytes().map(plain))
}

fn remove(fields: &mut HeaderMap, is_unwanted: impl Fn(&HeaderName) -> bool) {
    let unwanted: Vec<HeaderName> =
        fields.keys().filter(|name| is_unwanted(name)).cloned().collect();
    for name in unwanted {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn guard(keeps_rewrites: bool) -> FieldGuard {
        FieldGuard::new(&GatewayConfig {
            proxy_fields: vec![HeaderName::from_static("x-tenant")],
            credential_fields: vec![
                HeaderName::from_static("authorization"),
                HeaderName::from_static("x-api-key"),
            ],
            keeps_rewrites,
            ..GatewayConfig::default()
        })
    }

    /// The fields that are left.
    fn left(names: &[&'static str], strip: impl FnOnce(&mut HeaderMap)) -> String {
        let mut fields = HeaderMap::new();
        for name in names {
            fields.append(*name, HeaderValue::from_static("1"));
        }
        strip(&mut fields);
        let left = names.iter().filter(|name| fields.contains_key(**name));
        left.copied().collect::<Vec<_>>().join(" ")
    }

    const FIELDS: [&str; 16] = [
        "accept",
        "authorization",
        "x-api-key",
        "x_api_key",
        "x-api_key",
        "forwarded",
        "x-forwarded-for",
        "x_forwarded_for",
        "x-real_ip",
        "x-tenant",
        "x_tenant",
        "x-original-url",
        "x_original_url",
        "x-rewrite-url",
        "x_rewrite-url",
        "x_other",
    ];

    #[test]
    fn other_spellings_of_credentials_are_not_forwarded() {
        let check = |keeps_rewrites: bool, is_trusted: bool, expected: &str| {
            let strip =
                |fields: &mut HeaderMap| guard(keeps_rewrites).strip_head(fields, is_trusted);
            assert_eq!(left(&FIELDS, strip), expected);
        };
        check(true, false, "accept authorization x-api-key x_other");
        let proxied = "accept authorization x-api-key forwarded x-forwarded-for x-tenant";
        check(false, true, &format!("{proxied} x_other"));
        check(true, true, &format!("{proxied} x-original-url x-rewrite-url x_other"));
    }

    #[test]
    fn trailers_carry_no_credentials_and_no_claims() {
        let strip = |fields: &mut HeaderMap| guard(true).strip_trailers(fields);
        assert_eq!(left(&FIELDS, strip), "accept x_other");
    }

    #[test]
    fn a_credential_field_may_contain_an_underscore() {
        let guard = FieldGuard {
            credential_fields: vec![HeaderName::from_static("x_key")],
            ..FieldGuard::default()
        };
        let strip = |fields: &mut HeaderMap| guard.strip_head(fields, false);
        assert_eq!(left(&["x_key", "x-key", "x"], strip), "x_key x");
    }
}
