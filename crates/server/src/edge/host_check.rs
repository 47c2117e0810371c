//! Which hosts a server on loopback accepts while it requires no token, and the dashboard everywhere.
//!
//! A web page can reach a server on its visitor's machine under the page's own host name, by changing
//! the address of that name (DNS rebinding). Its requests name that host, so requests for unknown hosts
//! are refused.
//!
//! Forward-auth is not checked: proxies send the `Host` and `Origin` of their clients.

use std::net::{IpAddr, Ipv4Addr};

use http::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use http::uri::Authority;
use http::{Method, Request, StatusCode, Uri};

use crate::edge::http::handlers::authorize;
use crate::edge::http::problem::Problem;
use crate::settings::{CheckAuth, Settings};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses requests that a web page may have made.
#[derive(Clone, Debug)]
pub(crate) struct HostCheck {
    /// Names besides `localhost`, in small letters.
    names: Vec<String>,
}

impl HostCheck {
    /// The check for the listener of the check API; `None` if it needs none.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        let is_open = settings.check_auth == CheckAuth::None;
        let is_local = settings.http.ip().to_canonical().is_loopback();
        (is_open && is_local).then(|| Self::for_pages(settings))
    }

    /// The check for pages of the dashboard, on every listener.
    pub(crate) fn for_pages(settings: &Settings) -> Self {
        Self { names: settings.hosts.iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    /// Refuses a request for an unknown host, and a change from another site.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), Problem> {
        let after = request.uri().path().strip_prefix(authorize::PATH);
        if after.is_some_and(|after| after.is_empty() || after.starts_with('/')) {
            return Ok(());
        }
        self.admit_host(request)?;
        let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
        if !is_safe && self.is_of_another_site(request.headers()) {
            let detail = "a web page of another site made this request; choose check_auth token if it \
                          is meant to";
            return Err(Problem::new(StatusCode::FORBIDDEN, "cross_site_request", detail));
        }
        Ok(())
    }

    /// Refuses a request for an unknown host.
    pub(crate) fn admit_host<B>(&self, request: &Request<B>) -> Result<(), Problem> {
        if self.is_known_host(request.uri(), request.headers()) {
            return Ok(());
        }
        let detail = "this server does not answer to that host; use its address or localhost, or name the \
                      host in the setting hosts";
        Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", detail))
    }

    /// A request without a host is accepted: browsers always send one.
    fn is_known_host(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        if let Some(authority) = uri.authority() {
            return self.is_known(authority.as_str());
        }
        match headers.get(HOST).map(HeaderValue::to_str) {
            None | Some(Ok("")) => true,
            Some(host) => host.is_ok_and(|host| self.is_known(host)),
        }
    }

    fn is_of_another_site(&self, headers: &HeaderMap) -> bool {
        let is_foreign_origin = |origin: &HeaderValue| {
            let origin = origin.to_str().unwrap_or_default();
            let host = origin.split_once("://").map(|(_, host)| host);
            !host.is_some_and(|host| self.is_known(host))
        };
        headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site")
            || headers.get(ORIGIN).is_some_and(is_foreign_origin)
    }

    /// Whether a host, with or without a port, is an address, `localhost` or one of the names.
    pub(crate) fn is_known(&self, host: &str) -> bool {
        if is_address(host) {
            return true;
        }
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let host = authority.host();
        let host = host.strip_suffix('.').unwrap_or(host);
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if address.unwrap_or(host).parse::<IpAddr>().is_ok() {
            return true;
        }
        let host = host.to_ascii_lowercase();
        host == "localhost" || host.ends_with(".localhost") || self.names.contains(&host)
    }
}

/// Whether a host is an address of IPv4, with or without a port, as most callers of a local server write it. Reading
/// any host takes ten times as long.
fn is_address(host: &str) -> bool {
    let (address, port) = host.split_once(':').unwrap_or((host, "0"));
    let is_port = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    is_port && address.parse::<Ipv4Addr>().is_ok()
}

/// What is wrong with a name in the setting `hosts`, if anything.
pub(crate) fn not_a_host(name: &str) -> Option<String> {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let is_name = name.len() <= 253 && name.split('.').all(is_label);
    (!is_name)
        .then(|| format!("expected names without a port like tollgate.internal, found {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(method: &str, uri: &str, fields: &[(&'static str, &'static str)]) -> &'static str {
        let check = HostCheck { names: vec!["tollgate.internal".to_owned()] };
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        check.admit(&request.body(()).expect("a request")).map_or_else(|p| p.code(), |()| "ok")
    }

    #[test]
    fn a_web_page_cannot_use_its_own_host_name() {
        let check = |host: &'static str, expected: &str| {
            assert_eq!(outcome("POST", "/x", &[("host", host)]), expected, "{host}");
        };
        for known in [
            "",
            "127.0.0.1",
            "127.0.0.1:8080",
            "[::1]:8080",
            "192.0.2.1",
            "localhost:8080",
            "LOCALHOST.",
            "a.localhost",
            "Tollgate.Internal:80",
        ] {
            check(known, "ok");
        }
        for unknown in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "notlocalhost",
            "a b",
            "127.0.0.1:80:80",
            "127.0.0.1@evil.example",
            "127.0.0.1:80@evil.example",
        ] {
            check(unknown, "unknown_host");
        }
        assert_eq!(outcome("POST", "/x", &[]), "ok");
        // HTTP/2 has no Host header.
        assert_eq!(outcome("POST", "http://evil.example/x", &[]), "unknown_host");
    }

    #[test]
    fn a_web_page_cannot_change_anything_from_another_site() {
        let check = |method: &str, field: (&'static str, &'static str), expected: &str| {
            assert_eq!(outcome(method, "/x", &[field]), expected, "{method} {field:?}");
        };
        check("POST", ("origin", "https://evil.example"), "cross_site_request");
        check("POST", ("origin", "null"), "cross_site_request");
        check("DELETE", ("sec-fetch-site", "cross-site"), "cross_site_request");
        check("POST", ("origin", "http://localhost:8080"), "ok");
        check("POST", ("sec-fetch-site", "same-origin"), "ok");
        check("GET", ("sec-fetch-site", "cross-site"), "ok");
    }

    #[test]
    fn forward_auth_accepts_any_host() {
        let fields = [("host", "shop.example"), ("sec-fetch-site", "cross-site")];
        for path in ["/api/v1/rate-limit/authorize", "/api/v1/rate-limit/authorize/orders"] {
            assert_eq!(outcome("POST", path, &fields), "ok");
        }
        assert_eq!(outcome("POST", "/api/v1/rate-limit/authorized", &fields), "unknown_host");
    }
}
