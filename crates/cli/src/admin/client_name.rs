//! A client on the command line: `user_id=alice`, or several identifiers at once.

use serde_json::{Value, json};

use crate::remote::client::segment;
use crate::terminal::printable;

/// The identifier whose value is a secret.
const API_KEY: &str = "api_key";
/// What the digest of a secret begins with, which may be shown.
const DIGEST: &str = "sha256:";

/// One identifier of a client.
#[derive(Clone)]
pub(super) struct ClientPart {
    kind: String,
    value: String,
}

/// An API key is a secret.
impl std::fmt::Debug for ClientPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

impl ClientPart {
    /// Reads `TYPE=VALUE`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((kind, value)) if !kind.is_empty() && !value.is_empty() => {
                Ok(Self { kind: kind.to_owned(), value: value.to_owned() })
            }
            _ => Err("write it like user_id=alice or ip=198.51.100.0/24".to_owned()),
        }
    }

    fn shown(&self) -> String {
        let is_secret = self.kind == API_KEY && !self.value.starts_with(DIGEST);
        let value = if is_secret { "***" } else { &self.value };
        printable(&format!("{} {value}", self.kind))
    }
}

/// What names a client, or one of its identifiers: `ip=192.0.2.7` has its type, anything else is a value alone.
pub(super) fn named_by(text: &str) -> (Option<&str>, &str) {
    const TYPES: [&str; 4] = ["user_id", API_KEY, "ip", "tenant"];
    match text.split_once('=') {
        Some((kind, value)) if TYPES.contains(&kind) => (Some(kind), value),
        _ => (None, text),
    }
}

/// A client for people.
pub(super) fn shown(client: &[ClientPart]) -> String {
    let parts: Vec<String> = client.iter().map(ClientPart::shown).collect();
    parts.join(", ")
}

/// The parameters of a query that name a client.
pub(super) fn query(client: &[ClientPart]) -> Vec<(&'static str, String)> {
    let types = client.iter().map(|part| ("identifier_type", part.kind.clone()));
    types.chain(client.iter().map(|part| ("identifier", part.value.clone()))).collect()
}

/// The fields of an entry that name a client.
pub(super) fn fields(client: &[ClientPart]) -> Value {
    let both = |of: fn(&ClientPart) -> &String| match client {
        [one] => json!(of(one)),
        several => several.iter().map(of).cloned().collect(),
    };
    json!({ "identifier_type": both(|it| &it.kind), "identifier": both(|it| &it.value) })
}

/// A path with parameters.
pub(super) fn with_query(path: &str, parameters: &[(&str, String)]) -> String {
    let parameters: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", segment(value))).collect();
    if parameters.is_empty() { path.to_owned() } else { format!("{path}?{}", parameters.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(words: &[&str]) -> Vec<ClientPart> {
        words.iter().map(|word| ClientPart::parse(word).expect("a client")).collect()
    }

    #[test]
    fn a_client_has_one_identifier_or_several() {
        let one = client(&["ip=10.0.0.0/8"]);
        assert_eq!(fields(&one), json!({"identifier_type": "ip", "identifier": "10.0.0.0/8"}));
        let path = with_query("/x", &query(&one));
        assert_eq!(path, "/x?identifier_type=ip&identifier=10.0.0.0%2F8");
        let two = client(&["tenant=acme", "header:x-a=b=c"]);
        assert_eq!(
            fields(&two),
            json!({"identifier_type": ["tenant", "header:x-a"], "identifier": ["acme", "b=c"]})
        );
        assert_eq!(shown(&two), "tenant acme, header:x-a b=c");
        assert_eq!(with_query("/x", &[]), "/x");
        for wrong in ["", "alice", "=alice", "user_id="] {
            assert!(ClientPart::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_api_key_is_not_shown() {
        let key = client(&["api_key=sk_live_1"]);
        assert_eq!(
            (shown(&key), format!("{key:?}")),
            ("api_key ***".into(), "[api_key ***]".into())
        );
        assert_eq!(shown(&client(&["api_key=sha256:ab"])), "api_key sha256:ab");
    }
}
