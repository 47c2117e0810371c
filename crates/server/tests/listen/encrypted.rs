//! TLS: encrypted connections, client certificates, files that change under a running server.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use http::Version;
use rustls::pki_types::CertificateDer;
use tollgate_server::listen::{CertificateDigest, Tls};
use tollgate_server::settings::{Limits, TlsFiles};

use crate::certificates::{Authority, Identity, write};
use crate::client::{connect, connect_tls, get, read_to_end};
use crate::server::{Server, soon};

async fn start(files: TlsFiles) -> (Server, Arc<Tls>) {
    let tls = Arc::new(Tls::load(files).expect("usable files"));
    (Server::start(&Limits::default(), Some(Arc::clone(&tls))).await, tls)
}

#[tokio::test]
async fn both_protocols_are_served_encrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("authority");
    let (server, _) = start(authority.sign("localhost").write(folder.path())).await;
    for (protocols, version, shown) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2, "HTTP/2.0"),
        (&["http/1.1"][..], Version::HTTP_11, "HTTP/1.1"),
        (&[][..], Version::HTTP_11, "HTTP/1.1"),
    ] {
        let connecting = connect_tls(server.address, authority.roots(), None, protocols);
        let stream = connecting.await.expect("a handshake");
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(agreed, protocols.first().map(|name| name.as_bytes().to_vec()));
        let (status, body) = get(stream, version, "/").await.expect("an answer");
        assert_eq!(
            (status, body.split_once(' ').map(|(_, rest)| rest)),
            (200, Some(&*format!("false {shown}")))
        );
    }
}

#[tokio::test]
async fn client_certificates_are_seen_and_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("authority");
    let stranger = Authority::new("stranger");
    let client_ca = write(folder.path(), "clients.pem", &authority.pem);
    let files = authority.sign("localhost").write(folder.path());
    let (server, _) = start(TlsFiles { client_ca: Some(client_ca), ..files }).await;
    let ask = async |signer: Option<&Authority>| {
        let identity = signer.map(|signer| signer.sign("client"));
        let connecting = connect_tls(server.address, authority.roots(), identity.as_ref(), &[]);
        let stream = connecting.await.ok()?;
        let (_, body) = get(stream, Version::HTTP_11, "/").await.ok()?;
        Some(body.contains("true"))
    };
    assert_eq!(ask(Some(&authority)).await, Some(true));
    assert_eq!(ask(None).await, Some(false), "the service decides what that means");
    assert_eq!(ask(Some(&stranger)).await, None, "signed by another authority");
}

#[tokio::test]
async fn clients_are_identified_by_their_certificates() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("authority");
    let client_ca = write(folder.path(), "clients.pem", &authority.pem);
    let files = authority.sign("localhost").write(folder.path());
    let (server, _) = start(TlsFiles { client_ca: Some(client_ca), ..files }).await;
    // The certificates have the same name, but not the same key.
    let (one, other) = (authority.sign("client"), authority.sign("client"));
    let mut seen = Vec::new();
    for identity in [Some(&one), Some(&other), Some(&one), None] {
        let connecting = connect_tls(server.address, authority.roots(), identity, &[]);
        let stream = connecting.await.expect("a handshake");
        let (_, body) = get(stream, Version::HTTP_11, "/certificate").await.expect("an answer");
        let expected = identity.map(|identity| CertificateDigest::of(&identity.chain()[0]));
        assert_eq!(body, format!("{expected:?}"));
        seen.push(body);
    }
    assert_eq!(seen[0], seen[2]);
    assert_ne!(seen[0], seen[1]);
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = Authority::new("authority").sign("localhost").write(folder.path());
    let tls = Arc::new(Tls::load(files).expect("usable files"));
    let limits = Limits { header_timeout: Duration::from_millis(100), ..Limits::default() };
    let server = Server::start(&limits, Some(tls)).await;
    let mut stream = connect(server.address).await;
    assert_eq!(read_to_end(&mut stream).await, "");
}

/// The certificate that a server presents.
async fn certificate(server: &Server, authority: &Authority) -> CertificateDer<'static> {
    let connecting = connect_tls(server.address, authority.roots(), None, &[]);
    let stream = connecting.await.expect("a handshake");
    stream.get_ref().1.peer_certificates().expect("certificates")[0].clone()
}

/// Connects until the server presents that certificate.
async fn becomes(server: &Server, authority: &Authority, expected: &Identity) {
    let shown = async { while certificate(server, authority).await != expected.chain()[0] {} };
    soon("the new certificate", shown).await;
}

/// Connects often enough for the files to be checked in between.
async fn stays(server: &Server, authority: &Authority, expected: &Identity) {
    for _ in 0..30 {
        assert_eq!(certificate(server, authority).await, expected.chain()[0]);
    }
}

#[tokio::test]
async fn changed_files_are_reloaded_and_invalid_ones_are_not_used() {
    let authority = Authority::new("authority");
    let root = tempfile::tempdir().expect("a folder");
    // The files are reached through a link, as an orchestrator mounts them.
    let identities = ["one", "two", "three"].map(|name| {
        let identity = authority.sign("localhost");
        let folder = root.path().join(name);
        fs::create_dir(&folder).expect("a folder");
        identity.write(&folder);
        identity
    });
    let [first, second, third] = &identities;
    let link_to = |name: &str| {
        let fresh = root.path().join("fresh");
        std::os::unix::fs::symlink(name, &fresh).expect("a link");
        fs::rename(fresh, root.path().join("current")).expect("a swap");
    };
    link_to("one");
    let current = root.path().join("current");
    let files = TlsFiles {
        certificate: current.join("certificate.pem"),
        key: current.join("key.pem"),
        client_ca: None,
    };
    let (server, tls) = start(files.clone()).await;
    let period = Duration::from_millis(1);
    let following = tokio::spawn(tls.follow_files(period, server.shutdown.clone()));
    stays(&server, &authority, first).await;
    link_to("two");
    becomes(&server, &authority, second).await;
    // An invalid file and an incomplete change leave the last certificate in force.
    fs::write(&files.certificate, "nonsense").expect("written");
    stays(&server, &authority, second).await;
    fs::write(&files.certificate, &third.certificate).expect("written");
    stays(&server, &authority, second).await;
    fs::write(&files.key, &third.key).expect("written");
    becomes(&server, &authority, third).await;
    server.trigger.request();
    soon("the end of following", following).await.expect("no panic");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("authority");
    let good = authority.sign("localhost").write(folder.path());
    let other_key = write(folder.path(), "other.pem", &authority.sign("localhost").key);
    let nonsense = write(folder.path(), "nonsense.pem", "nonsense");
    let missing = folder.path().join("missing.pem");
    let check = |files: TlsFiles, expected: &str| {
        let error = Tls::load(files).map(|_| ()).expect_err(expected).to_string();
        let error = error.replace(&format!("{}/", folder.path().display()), "");
        assert_eq!(error, expected);
    };
    let with_certificate = |certificate| TlsFiles { certificate, ..good.clone() };
    let with_key = |key| TlsFiles { key, ..good.clone() };
    let with_ca = |client_ca| TlsFiles { client_ca: Some(client_ca), ..good.clone() };
    let not_there = "cannot read missing.pem: No such file or directory (os error 2)";
    check(with_certificate(missing.clone()), not_there);
    check(with_key(missing.clone()), not_there);
    check(with_ca(missing), not_there);
    let no_certificate =
        "nonsense.pem holds no certificate; expected PEM text with BEGIN CERTIFICATE";
    check(with_certificate(nonsense.clone()), no_certificate);
    check(with_ca(nonsense.clone()), no_certificate);
    check(
        with_certificate(good.key.clone()),
        "key.pem holds no certificate; expected PEM text with BEGIN CERTIFICATE",
    );
    check(
        with_key(nonsense),
        "nonsense.pem holds no private key; expected PEM text with BEGIN PRIVATE KEY",
    );
    check(
        with_key(good.certificate.clone()),
        "certificate.pem holds no private key; expected PEM text with BEGIN PRIVATE KEY",
    );
    check(
        with_key(other_key),
        "the key in other.pem does not belong to the certificate in certificate.pem",
    );
}
