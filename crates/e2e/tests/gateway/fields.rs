//! Which header fields the gateway forwards, and which it replaces.

use http::Version;

use crate::gateway::{Gateway, NO_RULES};
use crate::raw::{RawUpstream, field};
use crate::upstream::Upstream;
use tollgate_e2e::program::{curl, curl_from};

#[test]
fn forwarding_fields_are_those_of_the_gateway() {
    let upstream = RawUpstream::echo();
    let gateway =
        Gateway::with_settings("identity: {trusted_proxies: [127.0.0.2]}", upstream.address);
    let claims = [
        "X-Forwarded-For: 192.0.2.1",
        "Forwarded: for=192.0.2.1",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: other",
        "X-Real-IP: 192.0.2.1",
        "X_Forwarded_For: 192.0.2.1",
    ];
    let claims = claims.map(|claim| ["--header", claim]).concat();
    let asked = |client: &str| {
        let answer = curl_from(client, &gateway.url("/"), &claims);
        assert_eq!(answer.status, 200, "{answer:?}");
        upstream.heads().pop().expect("a head")
    };
    let here = gateway.address;
    let head = asked("127.0.0.9");
    for (name, expected) in [
        ("x-forwarded-for", Some("127.0.0.9".to_owned())),
        ("x-forwarded-proto", Some("http".to_owned())),
        ("x-forwarded-host", Some(here.to_string())),
        ("forwarded", Some(format!("for=127.0.0.9;host=\"{here}\";proto=http;by=_tollgate-1"))),
        ("x-real-ip", None),
        ("x_forwarded_for", None),
        ("host", Some(here.to_string())),
    ] {
        assert_eq!(field(&head, name), expected.as_deref(), "{name}: {head}");
    }
    let head = asked("127.0.0.2");
    for (name, expected) in [
        ("x-forwarded-for", Some("192.0.2.1, 127.0.0.2".to_owned())),
        ("x-forwarded-proto", Some("https".to_owned())),
        ("x-forwarded-host", Some("other".to_owned())),
        (
            "forwarded",
            Some(format!("for=192.0.2.1, for=127.0.0.2;host=\"{here}\";proto=http;by=_tollgate-1")),
        ),
        ("x-real-ip", Some("192.0.2.1".to_owned())),
        ("x_forwarded_for", None),
    ] {
        assert_eq!(field(&head, name), expected.as_deref(), "{name}: {head}");
    }
}

#[test]
fn hop_by_hop_fields_are_not_forwarded() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address);
    let fields = [
        ("Connection", "x-named, keep-alive"),
        ("X-Named", "1"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic eA=="),
        ("TE", "gzip"),
        ("Trailer", "x-sum"),
        ("X-End", "to end"),
    ];
    let answer = gateway.ask("GET", "/hop", &fields, b"");
    let seen = upstream.last();
    for name in
        ["connection", "x-named", "keep-alive", "proxy-connection", "proxy-authorization", "te"]
    {
        assert_eq!(seen.field(name), None, "{seen:?}");
    }
    assert_eq!(seen.field("x-end"), Some("to end"));
    for name in ["connection", "x-hop", "keep-alive"] {
        assert_eq!(answer.header(name), None, "{answer:?}");
    }
    assert_eq!(answer.header("x-end"), Some("2"));
    assert_eq!(answer.header("via"), None);
}

#[test]
fn the_host_is_kept_or_that_of_the_upstream() {
    let upstream = Upstream::start();
    for scheme in ["http", "h2c"] {
        for (kept, version) in
            [("keep", "--http1.1"), ("keep", "--http2-prior-knowledge"), ("upstream", "--http1.1")]
        {
            let url = format!("{scheme}://{}", upstream.address);
            let gateway = Gateway::start(NO_RULES, &format!("gateway: {{host: {kept}}}"), &[url]);
            curl(&[version, "--header", "Host: shop.example", &gateway.url("/x?y=1")]);
            let seen = upstream.last();
            let expected = if kept == "keep" {
                "shop.example".to_owned()
            } else {
                upstream.address.to_string()
            };
            let spoken = if scheme == "http" { Version::HTTP_11 } else { Version::HTTP_2 };
            assert_eq!(seen.version, spoken);
            if scheme == "http" {
                assert_eq!(
                    (seen.field("host"), seen.target.as_str()),
                    (Some(&*expected), "/x?y=1")
                );
            } else {
                assert_eq!(seen.target, format!("http://{expected}/x?y=1"));
                assert_eq!(seen.field("host"), None);
            }
            assert_eq!(seen.field("x-forwarded-host"), Some("shop.example"));
        }
    }
}

#[test]
fn requests_of_every_form() {
    let upstream = RawUpstream::echo();
    let gateway = Gateway::with_settings("paths: {mode: lenient}", upstream.address);
    let check = |request: &str, expected: &str, host: &str| {
        let answer = gateway.connect().ask(request.as_bytes());
        assert_eq!(answer.status, 200, "{request}: {answer:?}");
        let head = upstream.heads().pop().expect("a head");
        assert_eq!(head.lines().next(), Some(expected), "{request}");
        assert_eq!(field(&head, "host"), Some(host), "{request}");
    };
    check("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * HTTP/1.1", "a");
    check(
        "GET http://b.example:81/x?y HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /x?y HTTP/1.1",
        "b.example:81",
    );
    check("GET http://b.example HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1", "b.example");
    check(
        "BREW /a%2Fb//c/./d?e#f HTTP/1.1\r\nHost: a\r\n\r\n",
        "BREW /a%2Fb//c/./d?e HTTP/1.1",
        "a",
    );
    check("GET /1.0 HTTP/1.0\r\n\r\n", "GET /1.0 HTTP/1.1", &upstream.address.to_string());
    check("GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET / HTTP/1.1", &upstream.address.to_string());
    let answer =
        gateway.connect().ask(b"CONNECT b.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n");
    assert_eq!((answer.status, answer.code().as_str()), (501, "connect_not_supported"));
}
