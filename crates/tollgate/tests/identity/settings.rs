//! Settings that cannot be used, and their errors, which never contain secrets.

use std::num::NonZeroUsize;
use std::time::Duration;

use tollgate::identity::{
    ApiKeys, Extractor, ForwardingHeader, IdentityConfig, JwksUrl, JwtConfig, KnownKey,
    SigningAlgorithm, TokenKeys,
};

use crate::issuer::{P256, RSA, SECRET};
use crate::parse;

/// 1024 bits.
const SHORT_RSA: &str = "-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDiy1HndWPB4oeYtano1g8ctYXn
DQ3HwSHMR/cwtVbb6/C8LYeSXlxQZyte0fbgjbvpe4C8I+4qVtEaT18xPPrXuG0l
pjVAP2NXFtnhP2Hgdav8X9pyDwA0djR+TRi85UbZ1+gKlMNg8by1KJ/SyEk0HXIf
sHgJpVMaX1x9TUl77wIDAQAB
-----END PUBLIC KEY-----";
const P384: &str = "-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEEPAiNUHOem9+T1xWiqlVRjcRiBB9EmBP
LMVXqVO0K1f0F7nmMac8668u+qhE26ozN0O2V46Bv51Ca/XXzoarni3lPrRylUxq
ySvfP2vAk6rM8LRs4bIrRyv8Lwd6KYXn
-----END PUBLIC KEY-----";

fn check(change: impl FnOnce(&mut IdentityConfig), expected: &str) {
    let mut config = IdentityConfig::default();
    change(&mut config);
    let error = Extractor::new(config).expect_err(expected);
    assert_eq!(error.to_string(), expected);
    assert!(expected.starts_with(error.setting()));
}

fn check_keys(keys: TokenKeys, expected: &str) {
    let setting = match &keys {
        TokenKeys::Secret(_) => "jwt.secret",
        TokenKeys::Pem(_) => "jwt.public_key",
        TokenKeys::JwksFile(_) => "jwt.jwks_file",
        TokenKeys::JwksUrl(_) => "jwt.jwks_url",
    };
    check(|config| config.jwt = Some(JwtConfig::new(keys)), &format!("{setting}: {expected}"));
}

#[test]
fn addresses() {
    for bits in [0, 32, 65, 127, 129, 255] {
        check(
            |config| config.client_ip.ipv6_prefix = bits,
            &format!("client_ip.ipv6_prefix: {bits} bits; it can be 48, 56, 64 or 128"),
        );
    }
    check(
        |config| {
            config.client_ip.header = ForwardingHeader::Single(parse("x-real-ip"));
            config.client_ip.hops = NonZeroUsize::new(1);
        },
        "client_ip.hops: a header with one address has no hops to count; leave one of them out",
    );
    check(
        |config| config.client_ip.hops = NonZeroUsize::new(65),
        "client_ip.hops: at most 64 hops are looked at",
    );
}

#[test]
fn secrets_and_pem_keys() {
    let secret = |text: &str| TokenKeys::Secret(text.into());
    check_keys(
        secret("hunter2"),
        "a secret has at least 32 bytes, this one has 7; make one with `openssl rand -base64 48`",
    );
    check_keys(secret(&RSA.pem()), "a key in PEM is not a secret; give it as a PEM key");
    let pem = |text: &str| TokenKeys::Pem(text.into());
    let begins = "it begins with -----BEGIN PUBLIC KEY-----";
    check_keys(pem("hunter2"), &format!("not a key in PEM: {begins}"));
    check_keys(pem("-----BEGIN hunter2"), &format!("not a key in PEM: {begins}"));
    check_keys(pem("-----BEGIN hunter2-----"), &format!("not a public key: {begins}"));
    let private = "a private key; verifying tokens needs the public key only";
    check_keys(pem("-----BEGIN RSA PRIVATE KEY-----\nhunter2"), private);
    check_keys(pem("-----BEGIN PRIVATE KEY-----\nhunter2"), private);
    let certificate = "a certificate; take the key out of it with `openssl x509 -pubkey`";
    check_keys(pem("-----BEGIN CERTIFICATE-----\nAAAA"), certificate);
    check_keys(pem("-----BEGIN PUBLIC KEY-----\nAA"), "-----END PUBLIC KEY----- is missing");
    let wrapped =
        |body: &str| pem(&format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----"));
    check_keys(wrapped("hunter2"), "what stands between BEGIN and END is not Base64");
    check_keys(wrapped("AAAA"), "neither an RSA, nor a P-256, nor an Ed25519 key");
    check_keys(wrapped(""), "neither an RSA, nor a P-256, nor an Ed25519 key");
    check_keys(pem(P384), "neither an RSA, nor a P-256, nor an Ed25519 key");
    check_keys(pem(SHORT_RSA), "an RSA key must have 2048 to 8192 bits");
    check_keys(pem(&P256.pem().repeat(2)), "more than one key; for several, use a JWKS");
}

#[test]
fn addresses_of_keys() {
    let check_url = |url: &str, expected: &str| {
        check_keys(TokenKeys::JwksUrl(JwksUrl::new(parse(url))), expected);
    };
    check_url("/jwks.json", "not a URL such as https://issuer.example/jwks.json");
    check_url("ftp://a/b", "ftp://a/b begins neither with https:// nor with http://");
    check_url(
        "https://user:hunter2@issuer.example/jwks.json?key=hunter2",
        "https://issuer.example/jwks.json has a user name or password in it; leave them out",
    );
    check_url(
        "http://issuer.example:81/jwks.json?key=hunter2",
        "an attacker between here and http://issuer.example:81/jwks.json could replace the keys; \
         use https",
    );
    for deadline in [Duration::ZERO, Duration::from_secs(31)] {
        let url = parse("http://localhost/");
        check_keys(
            TokenKeys::JwksUrl(JwksUrl { deadline, ..JwksUrl::new(url) }),
            "the deadline of a fetch must be above zero and at most the pause",
        );
    }
}

#[test]
fn plain_http_is_for_this_machine() {
    let is_taken = |url: &str, allow_plain_http: bool| {
        let source = JwksUrl { allow_plain_http, ..JwksUrl::new(parse(url)) };
        let jwt = Some(JwtConfig::new(TokenKeys::JwksUrl(source)));
        Extractor::new(IdentityConfig { jwt, ..IdentityConfig::default() }).is_ok()
    };
    for url in
        ["http://localhost:8080/", "http://127.0.0.1/k", "http://127.9.9.9/", "http://[::1]/k"]
    {
        assert!(is_taken(url, false), "{url}");
    }
    for url in ["http://localhost.example/", "http://10.0.0.1/", "http://[2001:db8::1]/"] {
        assert!(!is_taken(url, false), "{url}");
        assert!(is_taken(url, true), "{url}");
    }
}

#[test]
fn algorithms_and_leeway() {
    let check_jwt = |change: &dyn Fn(&mut JwtConfig), expected: &str| {
        let mut jwt = JwtConfig::new(SECRET.keys());
        change(&mut jwt);
        check(|config| config.jwt = Some(jwt), expected);
    };
    check_jwt(
        &|jwt| jwt.algorithms = vec![SigningAlgorithm::Hs256, SigningAlgorithm::Rs256],
        "jwt.algorithms: RS256 does not go with these keys, which are for HS256",
    );
    check_jwt(&|jwt| jwt.leeway = Duration::from_secs(61), "jwt.leeway: 61s; it can be up to 60s");
    assert_eq!("EdDSA".parse(), Ok(SigningAlgorithm::EdDsa));
    assert_eq!(
        "none".parse::<SigningAlgorithm>().unwrap_err().to_string(),
        "jwt.algorithms: `none` is none of HS256, RS256, ES256 and EdDSA"
    );
}

#[test]
fn secrets_are_not_printed() {
    let hidden = "hunter2-hunter2-hunter2-hunter2-hunter2";
    let known = KnownKey::new(parse(hidden));
    let mut config = IdentityConfig::default();
    config.api_key.accept = ApiKeys::Known(vec![known]);
    let url = format!("http://localhost/?{hidden}").parse().unwrap();
    for keys in [
        TokenKeys::Secret(hidden.into()),
        TokenKeys::Pem(hidden.into()),
        TokenKeys::JwksUrl(JwksUrl::new(url)),
    ] {
        config.jwt = Some(JwtConfig::new(keys));
        let mut printed = format!("{config:?}");
        if let Ok(extractor) = Extractor::new(config.clone()) {
            printed += &format!("{extractor:?}");
        }
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}
