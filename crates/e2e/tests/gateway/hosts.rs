//! Requests without a host: they are checked and routed by the host that their upstream receives.

use crate::gateway::{Gateway, NO_RULES};
use crate::raw::{RawUpstream, field};
use tollgate_e2e::server::{Server, Setup};

const WITHOUT_HOST: [&str; 2] = ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost:\r\n\r\n"];
/// Requests for this host are refused.
const CLOSED: &str = "rules: [{rule_id: closed, limit: 0, window: 1h, identifier_type: global, \
    applies_to: {hosts: [localhost]}}]";

fn status(gateway: &Gateway, request: &str) -> u16 {
    gateway.connect().ask(request.as_bytes()).status
}

#[test]
fn a_rule_by_host_is_not_evaded_by_sending_no_host() {
    let upstream = RawUpstream::echo();
    let url = format!("http://localhost:{}", upstream.address.port());
    for settings in ["", "gateway: {host: upstream}"] {
        let gateway = Gateway::start(CLOSED, settings, std::slice::from_ref(&url));
        assert_eq!(status(&gateway, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 429);
        for request in WITHOUT_HOST {
            assert_eq!(status(&gateway, request), 429, "{request:?} {settings}");
        }
        assert_eq!(status(&gateway, "GET / HTTP/1.1\r\nHost: :80\r\n\r\n"), 400);
        assert_eq!(upstream.heads(), [""; 0]);
    }
}

#[test]
fn upstreams_with_different_hosts_receive_the_host_that_was_checked() {
    let upstreams = [(); 2].map(|()| RawUpstream::echo());
    let [first, second] = upstreams.each_ref().map(|upstream| upstream.address.port());
    let urls = [format!("http://localhost:{first}"), format!("http://127.0.0.1:{second}")];
    let gateway = Gateway::start(CLOSED, "", &urls);
    for request in WITHOUT_HOST.iter().chain(&WITHOUT_HOST) {
        assert_eq!(status(&gateway, request), 429, "{request:?}");
    }
    let gateway = Gateway::start(NO_RULES, "", &urls);
    for request in WITHOUT_HOST.iter().chain(&WITHOUT_HOST) {
        assert_eq!(status(&gateway, request), 200, "{request:?}");
    }
    for upstream in &upstreams {
        let heads = upstream.heads();
        assert_eq!(heads.len(), 2);
        for head in heads {
            assert_eq!(field(&head, "host"), Some(&*format!("localhost:{first}")), "{head}");
            assert_eq!(field(&head, "x-forwarded-host"), None, "the client sent none: {head}");
        }
    }
}

#[test]
fn a_route_by_host_is_not_evaded_by_sending_no_host() {
    let [meant, rest] = [(); 2].map(|()| RawUpstream::echo());
    let settings = format!(
        "routes: [{{host: localhost, path: /*, upstream: 'http://{}'}}]
upstream: http://localhost:{}
gateway: {{address: '127.0.0.1:0'}}
",
        meant.address,
        rest.address.port()
    );
    let setup = Setup { rules: Some(NO_RULES), settings: &settings, ..Setup::default() };
    let gateway = Gateway::of(Server::start(&setup));
    for request in WITHOUT_HOST {
        assert_eq!(status(&gateway, request), 200, "{request:?}");
    }
    assert_eq!((meant.heads().len(), rest.heads().len()), (WITHOUT_HOST.len(), 0));
}
