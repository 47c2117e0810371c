//! Bodies of every size and kind, both ways, in constant memory.

use std::fs::File;

use crate::gateway::Gateway;
use crate::upstream::Upstream;
use tollgate_e2e::client::request;
use tollgate_e2e::program::curl;

const HTTP1: &str = "--http1.1";
const HTTP2: &str = "--http2-prior-knowledge";
/// How much the gateway may grow: far less than the body.
const MAX_GROWTH_BYTES: u64 = 48 << 20;

/// Two gateways, which speak HTTP/1.1 and HTTP/2 to the upstream.
fn upstreams(upstream: &Upstream) -> [Gateway; 2] {
    ["http", "h2c"].map(|scheme| {
        let url = format!("{scheme}://{}", upstream.address);
        Gateway::start(crate::gateway::NO_RULES, "", &[url])
    })
}

#[test]
fn small_bodies_arrive_whole_in_every_combination() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("body");
    for gateway in upstreams(&upstream) {
        for version in [HTTP1, HTTP2] {
            for length in [0, 1, 65_536] {
                File::create(&file).and_then(|file| file.set_len(length)).expect("a file");
                let data = format!("@{}", file.display());
                for method in ["POST", "GET"] {
                    for extra in [&[][..], &["--header", "Transfer-Encoding: chunked"]] {
                        let url = gateway.url("/sink");
                        let arguments =
                            [version, "--request", method, "--data-binary", &data, &url];
                        let said = curl(&[&arguments, extra].concat());
                        let shown = format!("{version} {method} {extra:?}");
                        assert_eq!(said, format!("{length} bytes"), "{shown}");
                        assert_eq!(upstream.last().length, Some(length), "{shown}");
                    }
                }
                let url = gateway.url(&format!("/source/{length}"));
                let out = ["--output", "/dev/null", "--write-out", "%{http_code} %{size_download}"];
                let said = curl(&[&[version, &url], &out[..]].concat());
                assert_eq!(said, format!("200 {length}"), "{version}");
                let echoed = curl(&[version, "--data-binary", &data, &gateway.url("/echo")]);
                assert_eq!(echoed.len() as u64, length, "{version}");
            }
            let head = curl(&[version, "--head", &gateway.url("/source/12345")]);
            assert!(head.to_lowercase().contains("content-length: 12345"), "{version}: {head}");
        }
    }
}

/// One gigabyte where `TOLLGATE_SOAK_GATEWAY` is set.
#[test]
fn large_bodies_stream_through_in_constant_memory() {
    let is_soak = std::env::var_os("TOLLGATE_SOAK_GATEWAY").is_some();
    let length: u64 = if is_soak { 1 << 30 } else { 100 << 20 };
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("large");
    // A sparse file takes no disk space.
    File::create(&file).and_then(|file| file.set_len(length)).expect("a file");
    let file = file.to_str().expect("a name");
    for gateway in upstreams(&upstream) {
        assert_eq!(gateway.get("/").status, 200);
        let before = gateway.server.process.peak_memory();
        for version in [HTTP1, HTTP2] {
            let sent =
                curl(&[version, "--max-time", "200", "--upload-file", file, &gateway.url("/sink")]);
            assert_eq!(sent, format!("{length} bytes"), "{version}");
            let url = gateway.url(&format!("/source/{length}"));
            let out =
                ["--max-time", "200", "--output", "/dev/null", "--write-out", "%{size_download}"];
            assert_eq!(
                curl(&[&[version, &url], &out[..]].concat()),
                length.to_string(),
                "{version}"
            );
        }
        let grown = gateway.server.process.peak_memory() - before;
        assert!(grown < MAX_GROWTH_BYTES, "{grown} bytes were kept");
    }
}

#[test]
fn trailers_go_both_ways() {
    let upstream = Upstream::start();
    for gateway in upstreams(&upstream) {
        let mut connection = gateway.connect();
        let head = "POST /chunks/5 HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\n\
                    Trailer: x-check\r\nTransfer-Encoding: chunked\r\n\r\n";
        let body = "3\r\nabc\r\n0\r\nx-check: 42\r\n\r\n";
        connection.send(format!("{head}{body}").as_bytes()).expect("sent");
        let said = String::from_utf8(connection.rest()).expect("a text");
        assert!(said.ends_with("5\r\nxxxxx\r\n0\r\nx-sum: 7\r\n\r\n"), "{said}");
        let seen = upstream.last();
        assert_eq!(seen.length, Some(3));
        let trailers = seen.trailers.as_ref().expect("trailers");
        assert_eq!(trailers["x-check"], "42");
        assert_eq!(seen.field("te"), Some("trailers"), "{seen:?}");
    }
}

#[test]
fn connections_are_used_again() {
    let upstream = crate::raw::RawUpstream::echo();
    let gateway = Gateway::before(upstream.address);
    let mut connection = gateway.connect();
    for number in 0..50 {
        let answer = connection.ask(&request("POST", &format!("/{number}"), &[], b"body"));
        assert!(answer.text().starts_with(&format!("4 POST /{number} ")), "{answer:?}");
    }
    assert_eq!((upstream.heads().len(), upstream.connections()), (50, 1));
}
