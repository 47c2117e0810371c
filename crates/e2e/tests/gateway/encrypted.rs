//! TLS on both sides.

use crate::gateway::{Gateway, NO_RULES};
use crate::nginx;
use tollgate_e2e::certificates::Authority;
use tollgate_e2e::program::curl;
use tollgate_e2e::server::{Server, Setup};

#[test]
fn both_sides_are_encrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("tests");
    let ca = authority.write(folder.path(), "ca.pem");
    let (certificate, key) = authority.sign(folder.path(), "localhost");
    let (upstream_certificate, upstream_key) = authority.sign(folder.path(), "127.0.0.41");
    let files =
        format!("ssl_certificate {upstream_certificate}; ssl_certificate_key {upstream_key};");
    for (listen, spoken) in [("ssl http2", "HTTP/2.0"), ("ssl", "HTTP/1.1")] {
        let nginx = nginx::start(listen, &files);
        let url = format!("https://{}", nginx.address);
        let arguments = [
            "--gateway",
            "127.0.0.1:0",
            "--upstream",
            &url,
            "--tls-certificate",
            &certificate,
            "--tls-key",
            &key,
        ];
        let settings = format!("gateway: {{ca: {ca}}}");
        let setup = Setup {
            rules: Some(NO_RULES),
            settings: &settings,
            arguments: &arguments,
            ..Setup::default()
        };
        let gateway = Gateway::of(Server::start(&setup));
        let here = format!("https://localhost:{}/", gateway.address.port());
        for version in ["--http1.1", "--http2"] {
            let said = curl(&[version, "--cacert", &ca, "--include", &here, &here]);
            let seen = format!("x-seen: {spoken}:localhost:GET:127.0.0.1");
            assert_eq!(said.matches(&seen).count(), 2, "{said}");
            assert!(said.contains("hello"), "{said}");
        }
        drop(gateway);

        // An unknown authority.
        let other = Authority::new("others").write(folder.path(), "other.pem");
        let mut gateway = Gateway::start(NO_RULES, &format!("gateway: {{ca: {other}}}"), &[url]);
        let answer = gateway.get("/");
        assert_eq!((answer.status, answer.code().as_str()), (502, "upstream_unreachable"));
        gateway.server.process.until("word of it", |process| {
            process.errors().contains("UnknownIssuer").then_some(())
        });
    }
}
