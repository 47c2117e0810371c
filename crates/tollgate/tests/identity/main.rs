//! The identity of a request, and which identities a client cannot claim.

mod api_keys;
mod claims;
mod client_ip;
mod combined;
mod hostile;
mod issuer;
mod jwks_server;
mod keys;
mod known_vectors;
mod repeated;
mod rotation;
mod settings;
mod spellings;
mod tokens;

use std::fmt::Debug;
use std::fs;
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::str::FromStr;
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, HeaderName, HeaderValue};
use tempfile::NamedTempFile;
use tollgate::Timestamp;
use tollgate::identity::{Extractor, Identity, IdentityConfig, JwtConfig, TokenKeys, TokenVerdict};

/// When most of the tests happen.
const NOW: u64 = 1_700_000_000;
const STRANGER: &str = "198.51.100.7";

/// Headers from lines such as `x-api-key: abc`.
fn headers(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').expect("a name and a value");
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        headers.append(name, HeaderValue::from_bytes(value.trim().as_bytes()).expect("a value"));
    }
    headers
}

fn parse<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn address(text: &str) -> IpAddr {
    parse(text)
}

/// A file with these keys.
fn key_file(keys: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    fs::write(file.path(), keys).expect("written");
    file
}

fn extractor(config: IdentityConfig) -> Extractor {
    Extractor::new(config).unwrap_or_else(|error| panic!("{error}"))
}

/// An extractor that accepts tokens of these keys.
fn believing(keys: TokenKeys) -> Extractor {
    extractor(IdentityConfig { jwt: Some(JwtConfig::new(keys)), ..IdentityConfig::default() })
}

/// The user of a token from an untrusted peer, or why there is none.
async fn holder(extractor: &Extractor, token: &str, now: Timestamp) -> String {
    let headers = headers(&[&format!("authorization: Bearer {token}")]);
    described(&extractor.identify(&headers, address(STRANGER), now).await)
}

fn described(identity: &Identity) -> String {
    match identity.token {
        TokenVerdict::Verified => identity.user_id.clone().unwrap_or("unknown".to_owned()),
        other => {
            assert_eq!(identity.user_id, None, "{other:?} names a user");
            assert_eq!(identity.claims.iter().count(), 0, "{other:?} makes claims");
            match other {
                TokenVerdict::Rejected(problem) => format!("{problem:?}"),
                _ => "no token".to_owned(),
            }
        }
    }
}

/// Polls a future that never waits, without a runtime.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here is to be waited for"),
    }
}
