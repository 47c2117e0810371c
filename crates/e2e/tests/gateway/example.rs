//! The example of the documentation, as it is written but for its ports.

use std::fs;

use crate::gateway::Gateway;
use crate::raw::RawUpstream;
use tollgate_e2e::program::root;
use tollgate_e2e::server::{Server, Setup};

#[test]
fn the_example_does_what_it_says() {
    let [website, first, second] = [(); 3].map(|()| RawUpstream::echo());
    let folder = root().join("examples/gateway");
    let mut settings = fs::read_to_string(folder.join("tollgate.yaml")).expect("the example");
    let policy = fs::read_to_string(folder.join("policy.yaml")).expect("its rules");
    let rules = tempfile::NamedTempFile::new().expect("a file");
    fs::write(rules.path(), policy).expect("written");
    let replaced = [
        ("examples/gateway/policy.yaml", rules.path().display().to_string()),
        ("127.0.0.1:8000", "127.0.0.1:0".to_owned()),
        ("127.0.0.1:3000", website.address.to_string()),
        ("127.0.0.1:3001", first.address.to_string()),
        ("127.0.0.1:3002", second.address.to_string()),
    ];
    for (written, real) in replaced {
        assert!(settings.contains(written), "no {written} in the example");
        settings = settings.replace(written, &real);
    }
    let gateway = Gateway::of(Server::start(&Setup { settings: &settings, ..Setup::default() }));
    let ask = |line: &str, host: &str| {
        let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        gateway.connect().ask(request.as_bytes()).status
    };
    assert_eq!(ask("GET /", "www.example.com"), 200);
    assert_eq!(website.heads().len(), 1);
    let signing_in: Vec<u16> =
        (0..6).map(|_| ask("POST /v1/sessions", "api.example.com")).collect();
    assert_eq!(signing_in, [200, 200, 200, 200, 200, 429]);
    assert_eq!(ask("GET /v1/orders", "api.example.com"), 200);
    assert_eq!(first.heads().len() + second.heads().len(), 6);
    assert_eq!(first.heads().len(), 3);
}
