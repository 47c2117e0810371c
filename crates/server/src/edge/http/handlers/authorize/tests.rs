//! How the calls of proxies are read.

use super::*;

const ANY: RequestHeaders = RequestHeaders::Any;

/// Method, host and path of the request, or the status of the refusal.
fn asked(believed: RequestHeaders, lines: &[(&'static str, &str)], uri: &str) -> String {
    let lines: Vec<_> = lines.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    asked_in_bytes(believed, &lines, uri)
}

fn asked_in_bytes(believed: RequestHeaders, lines: &[(&'static str, &[u8])], uri: &str) -> String {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.insert(*name, HeaderValue::from_bytes(value).expect("a header value"));
    }
    let uri: Uri = uri.parse().expect("a URI");
    match AuthorizeRequest::of(&headers, "GET", &uri, believed) {
        Ok(AuthorizeRequest { method, host, path }) => {
            format!("{method} {}{path}", host.unwrap_or_default())
        }
        Err(problem) => problem.status().as_u16().to_string(),
    }
}

#[test]
fn requests_are_read_from_the_headers_of_proxies() {
    let check = |lines: &[(&'static str, &str)], behind: &str, expected: &str| {
        assert_eq!(asked(ANY, lines, &format!("{PATH}{behind}")), expected, "{lines:?}");
    };
    let traefik = [
        ("x-forwarded-method", "PUT"),
        ("x-forwarded-uri", "/t"),
        ("x-forwarded-host", "api.example.com"),
    ];
    check(&[], "", "400");
    check(&[], "/", "GET /");
    check(&[], "/orders/7?x=1", "GET /orders/7?x=1");
    check(&[], "?x=1", "400");
    check(&[("x-original-method", "POST"), ("x-original-uri", "/a?b")], "", "POST /a?b");
    check(&traefik, "", "PUT api.example.com/t");
    check(&[("x-original-uri", "https://h.example/p?q")], "", "GET /p?q");
    check(&[("x-original-uri", "https://h.example")], "", "GET /");
    let redirect = "/redirect?to=https://e.example/x";
    check(&[("x-original-uri", redirect)], "", "GET /redirect?to=https://e.example/x");
}

#[test]
fn headers_that_are_not_utf_8_are_not_ignored() {
    let check = |value: &[u8], expected: &str| {
        let lines = [("x-original-uri", value)];
        assert_eq!(asked_in_bytes(ANY, &lines, PATH), expected);
    };
    check("/login?\u{fc}".as_bytes(), "GET /login?\u{fc}");
    check(b"/login?\xff", "GET /login?\u{fffd}");
    check(b"https://h.example/login?\xff", "GET /login?\u{fffd}");
}

#[test]
fn a_client_cannot_choose_the_path_that_is_checked() {
    let both = [("x-original-uri", "/harmless"), ("x-forwarded-uri", "/login")];
    let check = |believed, behind: &str, expected: &str| {
        assert_eq!(asked(believed, &both, &format!("{PATH}{behind}")), expected);
    };
    check(ANY, "", "400");
    check(ANY, "/login", "GET /login");
    check(RequestHeaders::Original, "", "GET /harmless");
    check(RequestHeaders::Forwarded, "", "GET /login");
    let same = [("x-original-uri", "/login"), ("x-forwarded-uri", "https://h.example/login")];
    assert_eq!(asked(ANY, &same, PATH), "GET /login");
    let other_method = [
        ("x-original-uri", "/login"),
        ("x-original-method", "GET"),
        ("x-forwarded-uri", "/login"),
        ("x-forwarded-method", "POST"),
    ];
    assert_eq!(asked(ANY, &other_method, PATH), "400");
    assert_eq!(asked(RequestHeaders::Forwarded, &other_method, PATH), "POST /login");
    let only_there =
        [("x-original-uri", "/login"), ("x-original-method", "GET"), ("x-forwarded-uri", "/login")];
    assert_eq!(asked(ANY, &only_there, PATH), "400");
}

#[test]
fn a_proxy_chooses_its_deny_status_and_a_client_does_not() {
    let check = |behind: &str, expected: Result<Option<DenyStatus>, u16>| {
        let uri: Uri = format!("{PATH}{behind}").parse().expect("a URI");
        let chosen = deny_status(&uri).map_err(|problem| problem.status().as_u16());
        assert_eq!(chosen, expected, "{behind}");
    };
    check("", Ok(None));
    check("?deny_status=403", Ok(Some(DenyStatus::Forbidden)));
    check("?a=b&deny_status=429", Ok(Some(DenyStatus::TooManyRequests)));
    check("?deny_status=200", Err(400));
    check("?deny_status=", Err(400));
    check("?deny_status=403&deny_status=429", Err(400));
    check("/orders?deny_status=200", Ok(None));
}

#[test]
fn a_repeated_header_is_refused() {
    let mut headers = HeaderMap::new();
    headers.append("x-original-uri", HeaderValue::from_static("/harmless"));
    headers.append("x-original-uri", HeaderValue::from_static("/login"));
    let uri = Uri::from_static(PATH);
    let refused = AuthorizeRequest::of(&headers, "GET", &uri, ANY).expect_err("two lines");
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
}

#[test]
fn the_host_of_http_2_is_that_of_its_target() {
    let headers = HeaderMap::new();
    let uri = Uri::from_static("https://api.example.com/api/v1/rate-limit/authorize/x");
    let asked = AuthorizeRequest::of(&headers, "GET", &uri, ANY).expect("a path behind ours");
    assert_eq!(asked.host.as_deref(), Some("api.example.com"));
}

#[test]
fn a_path_of_any_length_is_checked() {
    let long = format!("/{}", "a".repeat(60_000));
    assert_eq!(asked(ANY, &[("x-original-uri", &long)], PATH), format!("GET {long}"));
    assert_eq!(asked(ANY, &[], &format!("{PATH}{long}")), format!("GET {long}"));
}
