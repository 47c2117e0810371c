//! Requests that go to one upstream or another, by host and path.

use crate::gateway::{Gateway, NO_RULES};
use crate::raw::RawUpstream;
use tollgate_e2e::process::Process;
use tollgate_e2e::server::{Server, Setup, command};

#[test]
fn the_route_that_fits_best_is_taken() {
    let [api, users, web] = [(); 3].map(|()| RawUpstream::echo());
    let settings = format!(
        "routes:
  - {{host: api.example.com, path: /v1/*, upstream: ['http://{}']}}
  - {{host: api.example.com, path: /v1/users/*, upstream: http://{}}}
  - {{path: /web/*, upstream: http://{}}}
gateway: {{address: '127.0.0.1:0'}}
",
        api.address, users.address, web.address
    );
    let setup = Setup { rules: Some(NO_RULES), settings: &settings, ..Setup::default() };
    let gateway = Gateway::of(Server::start(&setup));
    let check = |host: &str, target: &str, expected: Option<&RawUpstream>| {
        let before = expected.map(|upstream| upstream.heads().len());
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = gateway.connect().ask(request.as_bytes());
        match expected.zip(before) {
            None => assert_eq!((answer.status, answer.code().as_str()), (404, "no_route")),
            Some((upstream, before)) => {
                assert_eq!(answer.status, 200, "{host} {target}: {answer:?}");
                assert_eq!(upstream.heads().len(), before + 1, "{host} {target}");
            }
        }
    };
    check("api.example.com", "/v1/orders", Some(&api));
    check("API.example.com:8000", "/v1", Some(&api));
    check("api.example.com", "/v1/users/7?x", Some(&users));
    check("other.example", "http://api.example.com/v1/users/7", Some(&users));
    check("other.example", "/web/", Some(&web));
    check("other.example", "/v1/orders", None);
    check("api.example.com", "/v2", None);
    check("api.example.com", "/", None);
    for path in ["/web/../v1", "/web/..%2fv1", "/web/%2e%2e%2Fv1", "/web/..%5cv1"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: api.example.com\r\n\r\n");
        let answer = gateway.connect().ask(request.as_bytes());
        assert_eq!((answer.status, answer.code().as_str()), (400, "ambiguous_path"), "{path}");
    }
}

#[test]
fn invalid_gateway_settings_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |settings: &str, arguments: &[&str], expected: &str| {
        let setup = Setup { rules: Some(NO_RULES), settings, arguments, ..Setup::default() };
        let mut process = Process::start(&mut command(&setup, folder.path()));
        assert_eq!(process.end().code(), Some(2), "{settings} {arguments:?}");
        assert!(process.errors().contains(expected), "{settings}: {}", process.errors());
    };
    check("", &["--upstream", "backend"], "upstream (flag --upstream): expected");
    check("", &["--upstream", "http://a/path"], "upstream (flag --upstream): expected");
    check(
        "",
        &["--gateway", "127.0.0.1:0"],
        "gateway.address (flag --gateway): there is nowhere to forward to",
    );
    check("gateway: {host: keep}", &[], "there is nowhere to forward to");
    check("gateway: 127.0.0.1:0", &["--upstream", "http://a"], "this is a group of settings");
    check("upstream: http://a\ngateway: {host: both}", &[], "expected keep or upstream");
    check(
        "routes: [{path: /v1, upstream: http://a, port: 1}]",
        &[],
        "tollgate.yaml:1:42): a route has no \"port\"",
    );
    check("routes: [{path: v1, upstream: http://a}]", &[], "expected a path like /health");
    check("routes: [{path: /v1/*}]", &[], "a route needs an upstream");
    check("routes: [{upstream: http://a}]", &[], "a route needs a path");
    check(
        "routes: [{path: /, host: 'a:80', upstream: http://a}]",
        &[],
        "expected a host without a port",
    );
    check(
        "upstream: https://a\ngateway: {ca: /nowhere}",
        &[],
        "gateway.ca: the authorities in /nowhere cannot be used",
    );
}
