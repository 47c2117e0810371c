//! How signed tokens are verified: the settings under `identity.jwt`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use serde_json::Value as Json;
use tollgate::identity::{JwksUrl, JwtConfig, SigningAlgorithm, TokenKeys};

use super::layers::{Layers, SecretNames};
use super::value::{Choice, Setting};

const GROUP: &str = "identity.jwt.";
pub(super) const SECRET: SecretNames = SecretNames {
    name: "identity.jwt.secret",
    file: "identity.jwt.secret_file",
    variable: "TOLLGATE_JWT_SECRET",
};

/// The configuration for tokens, if any of these settings is given.
pub(super) fn read(layers: &mut Layers<'_>) -> Option<JwtConfig> {
    if !layers.mentions(GROUP) && !layers.is_set(SECRET.variable) {
        return None;
    }
    // The other defaults do not depend on the keys, which are set below.
    let mut jwt = JwtConfig::new(TokenKeys::Secret(String::new().into()));
    let keys = read_keys(layers);
    layers.read("identity.jwt.algorithms", &mut jwt.algorithms);
    layers.read("identity.jwt.issuer", &mut jwt.issuer);
    layers.read("identity.jwt.audience", &mut jwt.audiences);
    let mut leeway = jwt.leeway.as_secs();
    layers.read_within("identity.jwt.leeway_seconds", &mut leeway, 0..=60);
    jwt.leeway = Duration::from_secs(leeway);
    layers.read("identity.jwt.user_claim", &mut jwt.user_claim);
    layers.read("identity.jwt.tenant_claim", &mut jwt.tenant_claim);
    layers.read("identity.jwt.tier_claim", &mut jwt.tier_claim);
    jwt.keys = keys?;
    Some(jwt)
}

/// Reads the keys, which come from one place.
fn read_keys(layers: &mut Layers<'_>) -> Option<TokenKeys> {
    let secret = layers.read_secret(&SECRET, |_| None);
    let (mut public_key_file, mut jwks_file): (Option<PathBuf>, Option<PathBuf>) = (None, None);
    let mut url: Option<Uri> = None;
    layers.read("identity.jwt.public_key_file", &mut public_key_file);
    layers.read("identity.jwt.jwks_file", &mut jwks_file);
    layers.read("identity.jwt.jwks_url", &mut url);
    let mut jwks_url = JwksUrl::new(url.clone().unwrap_or_default());
    let mut refresh = jwks_url.refresh.as_secs();
    layers.read_within("identity.jwt.jwks_refresh_seconds", &mut refresh, 30..=86_400);
    jwks_url.refresh = Duration::from_secs(refresh);
    let pem = public_key_file.map(|path| match fs::read_to_string(&path) {
        Ok(text) => Some(TokenKeys::Pem(text.into())),
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            layers.refuse("identity.jwt.public_key_file", message);
            None
        }
    });
    let given = [
        secret.map(|secret| Some(TokenKeys::Secret(secret))),
        pem,
        jwks_file.map(|path| Some(TokenKeys::JwksFile(path))),
        url.map(|_| Some(TokenKeys::JwksUrl(jwks_url))),
    ];
    let mut given = given.into_iter().flatten();
    let keys = given.next();
    let advice = "name one of secret_file, public_key_file, jwks_file and jwks_url, or set \
                  TOLLGATE_JWT_SECRET";
    match (&keys, given.next()) {
        (None, _) if !layers.has_refused(GROUP) => {
            layers.refuse("identity.jwt", format!("there are no keys to verify tokens; {advice}"));
        }
        (Some(_), Some(_)) => {
            layers.refuse("identity.jwt", format!("keys come from several places; {advice}"));
        }
        _ => {}
    }
    keys.flatten()
}

impl Choice for SigningAlgorithm {
    const ALL: &'static [(&'static str, Self)] = &[
        (Self::Hs256.name(), Self::Hs256),
        (Self::Rs256.name(), Self::Rs256),
        (Self::Es256.name(), Self::Es256),
        (Self::EdDsa.name(), Self::EdDsa),
    ];
}

impl Setting for Uri {
    fn expected() -> String {
        "a URL like https://issuer.example/.well-known/jwks.json".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        let uri: Self = text.parse().ok()?;
        (uri.scheme().is_some() && uri.host().is_some()).then_some(uri)
    }

    /// Without user and query, which can contain secrets.
    fn show(&self) -> Json {
        let (scheme, host) =
            (self.scheme_str().unwrap_or_default(), self.host().unwrap_or_default());
        let port = self.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{host}{port}{}", self.path()).into()
    }
}
