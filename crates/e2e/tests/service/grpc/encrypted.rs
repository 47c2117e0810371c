//! gRPC that is encrypted from end to end, with certificates on one side or on both.

use serde_json::{Value, json};

use tollgate_e2e::certificates::Authority;
use tollgate_e2e::grpc::{CHECK_RATE_LIMIT, Client, SHOULD_RATE_LIMIT, request};
use tollgate_e2e::server::{ADMIN_TOKEN, Server, Setup};

/// A server with a certificate, and what clients need to know.
struct Encrypted {
    server: Server,
    authority: String,
    client: (String, String),
    stranger: (String, String),
    other_authority: String,
}

impl Encrypted {
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let (own, other) = (Authority::new("our own"), Authority::new("another"));
        let authority = own.write(path, "authority.pem");
        let other_authority = other.write(path, "other.pem");
        let (certificate, key) = own.sign(path, "localhost");
        let (client, stranger) = (own.sign(path, "client"), other.sign(path, "stranger"));
        let files =
            ["--tls-certificate", &certificate, "--tls-key", &key, "--tls-client-ca", &authority];
        let arguments = [&files[..], arguments].concat();
        let setup = Setup { arguments: &arguments, ..Setup::default() };
        let server = Server::start_in(folder, &setup);
        Self { server, authority, client, stranger, other_authority }
    }

    fn client(&self, authority: &str, own: Option<&(String, String)>) -> Client {
        let address = self.server.grpc_address.to_string();
        let mut target = json!({ "address": address, "authority": authority });
        if let Some((certificate, key)) = own {
            target["certificate"] = json!(certificate);
            target["key"] = json!(key);
        }
        Client::open(&target)
    }
}

fn ann() -> Value {
    request("any", &[&["user=ann"]])
}

/// The response to a client without definitions: only the code.
fn raw_code(client: &mut Client, token: Option<&str>) -> String {
    let metadata =
        token.map_or(json!({}), |token| json!({"authorization": format!("Bearer {token}")}));
    let ask = json!({"raw": CHECK_RATE_LIMIT, "bytes": "", "metadata": metadata});
    client.ask(&ask).map_or_else(|failure| failure.code, |_| "OK".to_owned())
}

#[test]
fn a_certificate_proves_who_the_server_is() {
    let encrypted = Encrypted::start(&[]);
    let mut trusting = encrypted.client(&encrypted.authority, None);
    assert_eq!(trusting.call(SHOULD_RATE_LIMIT, &ann())["overall_code"], "OK");
    let mut doubting = encrypted.client(&encrypted.other_authority, None);
    assert_eq!(raw_code(&mut doubting, None), "UNAVAILABLE", "an unknown authority");
    let mut plain = Client::of(&encrypted.server);
    assert_eq!(raw_code(&mut plain, None), "UNAVAILABLE", "plain text gets no response");
}

#[test]
fn a_client_certificate_opens_the_service() {
    let encrypted = Encrypted::start(&["--check-auth", "mtls"]);
    let mut known = encrypted.client(&encrypted.authority, Some(&encrypted.client));
    assert_eq!(known.call(SHOULD_RATE_LIMIT, &ann())["overall_code"], "OK");
    assert_eq!(raw_code(&mut known, None), "OK");
    let mut anonymous = encrypted.client(&encrypted.authority, None);
    assert_eq!(raw_code(&mut anonymous, None), "UNAUTHENTICATED", "no certificate");
    assert_eq!(raw_code(&mut anonymous, Some(ADMIN_TOKEN)), "OK", "a token does as well");
    let mut stranger = encrypted.client(&encrypted.authority, Some(&encrypted.stranger));
    assert_eq!(raw_code(&mut stranger, None), "UNAVAILABLE", "of another authority");
}
