//! Refuses forms that a page of another site sent.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a browser says that another site made this request. Clients that are no browsers say nothing; every form has
/// the token of its session besides.
pub(super) fn is_of_another_site(uri: &Uri, headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE);
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return true;
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = uri.authority().map(http::uri::Authority::as_str);
    let host = host.or_else(|| headers.get(HOST)?.to_str().ok());
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let is_own = match (origin, host) {
        (Some((scheme, origin)), Some(host)) => {
            without_port(scheme, origin).eq_ignore_ascii_case(without_port(scheme, host))
        }
        _ => false,
    };
    !is_own
}

/// Whether a link on a page of another site led here. Browsers then send no cookie.
pub(super) fn is_link_from_another_site(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// Whether the browser speaks TLS, maybe to a proxy in front.
pub(super) fn is_https(headers: &HeaderMap) -> bool {
    headers.get(ORIGIN).map(HeaderValue::as_bytes).is_some_and(|it| it.starts_with(b"https://"))
}

/// A host without the usual port of its scheme, which browsers leave out.
fn without_port<'a>(scheme: &str, host: &'a str) -> &'a str {
    let usual = if scheme == "https" { ":443" } else { ":80" };
    host.strip_suffix(usual).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: &[(&'static str, &'static str)], expected: bool) {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        let uri = Uri::from_static("/rules");
        assert_eq!(is_of_another_site(&uri, &headers), expected, "{fields:?}");
    }

    #[test]
    fn forms_of_other_sites_are_recognised() {
        let host = ("host", "127.0.0.1:8080");
        check(&[host], false);
        check(&[host, ("origin", "http://127.0.0.1:8080")], false);
        check(&[host, ("origin", "http://127.0.0.1:8081")], true);
        check(&[host, ("origin", "https://evil.example")], true);
        check(&[host, ("origin", "null")], true);
        check(&[host, ("origin", "")], true);
        check(&[("origin", "http://127.0.0.1:8080")], true);
        check(&[("host", "a.example"), ("origin", "https://A.example")], false);
        check(&[("host", "a.example:443"), ("origin", "https://a.example")], false);
        check(&[("host", "a.example:80"), ("origin", "https://a.example")], true);
        for (site, expected) in
            [("same-origin", false), ("none", false), ("same-site", true), ("cross-site", true)]
        {
            check(&[host, ("sec-fetch-site", site)], expected);
        }
        let own = ("origin", "http://127.0.0.1:8080");
        check(&[host, own, ("sec-fetch-site", "cross-site")], true);
    }
}
