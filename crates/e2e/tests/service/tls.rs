//! Encrypted from end to end, with certificates on one side or on both.

use tollgate_e2e::certificates::Authority;
use tollgate_e2e::program::try_curl;
use tollgate_e2e::server::{ADMIN_TOKEN, CHECK, Server, Setup};

/// A server with a certificate, and what clients need to know.
struct Encrypted {
    server: Server,
    authority: String,
    client: (String, String),
    stranger: (String, String),
}

impl Encrypted {
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let own = Authority::new("our own");
        let authority = own.write(path, "authority.pem");
        let (certificate, key) = own.sign(path, "localhost");
        let client = own.sign(path, "client");
        let stranger = Authority::new("another").sign(path, "stranger");
        let files = ["--tls-certificate", &certificate, "--tls-key", &key];
        let with_authority = ["--tls-client-ca", &authority];
        let arguments = [&files[..], &with_authority, arguments].concat();
        let setup = Setup { arguments: &arguments, ..Setup::default() };
        let server = Server::start_in(folder, &setup);
        Self { server, authority, client, stranger }
    }

    /// The status of a check, or why there is none.
    fn check(&self, more: &[&str]) -> Result<String, String> {
        let port = self.server.address.port();
        let url = format!("https://localhost:{port}{CHECK}");
        let resolve = format!("localhost:{port}:127.0.0.1");
        let body = r#"{"identifiers":{"user_id":"alice"}}"#;
        let own = ["--resolve", &resolve, "--json", body, "--output", "/dev/null"];
        let status = ["--write-out", "%{http_code} %{http_version}", &url];
        try_curl(&[&own[..], &status, more].concat())
    }
}

#[test]
fn a_certificate_proves_who_the_server_is() {
    let encrypted = Encrypted::start(&[]);
    let trust = ["--cacert", &encrypted.authority];
    assert_eq!(encrypted.check(&trust).as_deref(), Ok("200 2"));
    let old = [&trust[..], &["--http1.1"]].concat();
    assert_eq!(encrypted.check(&old).as_deref(), Ok("200 1.1"));
    let errors = encrypted.check(&[]).expect_err("an unknown authority");
    assert!(errors.contains("certificate"), "{errors}");
    // Plain HTTP gets no response.
    let plain = encrypted.server.url(CHECK);
    assert!(try_curl(&["--json", "{}", &plain]).is_err());
}

#[test]
fn a_client_certificate_opens_the_check_api() {
    let encrypted = Encrypted::start(&["--check-auth", "mtls"]);
    let trust = ["--cacert", encrypted.authority.as_str()];
    let check = |more: &[&str]| encrypted.check(&[&trust[..], more].concat());
    let (certificate, key) = &encrypted.client;
    assert_eq!(check(&["--cert", certificate, "--key", key]).as_deref(), Ok("200 2"));
    assert_eq!(check(&[]).as_deref(), Ok("401 2"), "no certificate");
    let token = format!("Authorization: Bearer {ADMIN_TOKEN}");
    assert_eq!(check(&["--header", &token]).as_deref(), Ok("200 2"), "a token does as well");
    let (certificate, key) = &encrypted.stranger;
    assert!(check(&["--cert", certificate, "--key", key]).is_err(), "of another authority");
}
