//! Tokens and certificates that servers and clients accept or refuse.

use std::fs;
use std::path::Path;

use tollgate_client::{Check, Client, Error, RefusalKind};
use tollgate_server::settings::{CheckAuth, TlsFiles};

use crate::server::{PROTOCOLS, Protocol, Server};

/// A self-signed certificate, and its key.
fn certificate(folder: &Path, name: &str) -> (String, String) {
    certificate_of(vec!["localhost".to_owned()], folder, name)
}

fn certificate_of(hosts: Vec<String>, folder: &Path, name: &str) -> (String, String) {
    let own = rcgen::generate_simple_self_signed(hosts).expect("a certificate");
    let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    fs::write(folder.join(format!("{name}.pem")), &certificate).expect("written");
    fs::write(folder.join(format!("{name}.key")), &key).expect("written");
    (certificate, key)
}

pub(crate) fn read(server: &Server, name: &str) -> String {
    fs::read_to_string(server.folder.path().join(name)).expect("a file")
}

#[tokio::test]
async fn a_token_opens_the_door() {
    const TOKEN: &str = "caller-squeamish-ossifrage";
    let server = Server::start_with(|settings, _| {
        settings.check_auth = CheckAuth::Token;
        settings.check_token = Some(TOKEN.into());
    });
    for protocol in PROTOCOLS {
        let builder = protocol.builder(&server.url(protocol));
        let client = builder.clone().token(TOKEN).build().expect("a client");
        assert!(client.check(&Check::new()).await.is_from_server(), "{protocol:?}");
        assert!(!format!("{client:?}").contains("squeamish"), "{client:?}");
        let debug = format!("{:?}", builder.clone().token(TOKEN));
        assert!(!debug.contains("squeamish"), "{debug}");
        for client in [builder.clone(), builder.token("wrong-ossifrage")] {
            let client = client.build().expect("a client");
            let error = client.try_check(&Check::new()).await.expect_err("no right");
            assert!(!error.to_string().contains("ossifrage"), "{error}");
            let Error::Refused { kind, .. } = error else { panic!("{error}") };
            assert_eq!(kind, RefusalKind::Unauthorized, "{protocol:?}");
        }
    }
}

#[test]
fn secrets_are_not_shown() {
    let check = Check::new().user_id("alice").api_key("hush").attribute("header:cookie", "hush");
    let check = check.rule("r").key(tollgate_client::KeyType::ApiKey, "hush");
    assert!(!format!("{check:?}").contains("hush"), "{check:?}");
    let refuse = |token: &str| {
        let error = Client::builder("http://localhost").token(token).build().expect_err("refused");
        assert!(error.to_string().contains("visible ASCII") && !error.to_string().contains("hush"));
    };
    ["", "hush\n", "hu sh", "hush\u{e9}"].into_iter().for_each(refuse);
}

/// A server that speaks TLS, under this many names; its certificate is in `server.pem`.
pub(crate) fn with_certificate(names: u32) -> Server {
    Server::start_with(|settings, folder| {
        let others = (1..names).map(|number| format!("server-{number}.limits.example.com"));
        let hosts = std::iter::once("localhost".to_owned()).chain(others).collect();
        certificate_of(hosts, folder, "server");
        let file = |name: &str| folder.join(name);
        let (certificate, key) = (file("server.pem"), file("server.key"));
        settings.tls = Some(TlsFiles { certificate, key, client_ca: None });
    })
}

#[tokio::test]
async fn a_certificate_is_believed_if_its_authority_is() {
    let server = with_certificate(1);
    for protocol in PROTOCOLS {
        let builder = protocol.builder(&server.url(protocol));
        let trusting = builder.clone().authority(read(&server, "server.pem"));
        let decision = trusting.build().expect("a client").check(&Check::new()).await;
        assert!(decision.is_from_server(), "{protocol:?} {decision:?}");
        let (stranger, _) = certificate(server.folder.path(), "stranger");
        let doubting = builder.authority(stranger).build().expect("a client");
        let error = doubting.try_check(&Check::new()).await.expect_err("an unknown authority");
        assert!(matches!(error, Error::Unreachable { .. }), "{protocol:?} {error}");
    }
}

#[tokio::test]
async fn a_client_can_show_a_certificate() {
    let server = Server::start_with(|settings, folder| {
        certificate(folder, "server");
        certificate(folder, "client");
        let file = |name: &str| folder.join(name);
        let client_ca = Some(file("client.pem"));
        let (certificate, key) = (file("server.pem"), file("server.key"));
        settings.tls = Some(TlsFiles { certificate, key, client_ca });
        settings.check_auth = CheckAuth::Mtls;
    });
    for protocol in PROTOCOLS {
        let url = server.url(protocol);
        let builder = protocol.builder(&url).authority(read(&server, "server.pem"));
        let anonymous = builder.clone().build().expect("a client");
        assert!(anonymous.try_check(&Check::new()).await.is_err(), "{protocol:?}");
        let known = builder.certificate(read(&server, "client.pem"), read(&server, "client.key"));
        let decision = known.build().expect("a client").check(&Check::new()).await;
        assert!(decision.is_from_server(), "{protocol:?} {decision:?}");
    }
}

#[test]
fn certificates_that_are_none_are_refused() {
    let (good, key) = certificate(tempfile::tempdir().expect("a folder").path(), "own");
    let builder = || Protocol::Http.builder("https://localhost").authority(&*good);
    let refuse = |builder: tollgate_client::ClientBuilder, expected: &str| {
        let error = builder.build().expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
    };
    refuse(builder().authority("no certificate"), "no certificate in PEM format");
    refuse(builder().certificate(&*good, "no key"), "no private key in PEM format");
    refuse(builder().certificate("no certificate", &*key), "no certificate in PEM format");
    assert!(builder().certificate(&*good, &*key).build().is_ok());
}
