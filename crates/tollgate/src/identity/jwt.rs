//! Signed tokens (RFC 7519), with the advice of RFC 8725: nothing in a token decides how it is
//! verified.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Number, Value};
use tollgate_core::{Micros, Timestamp};

use super::claims::{self, Claims, Holder};
use super::compact::CompactToken;
use super::error::IdentityError;
use super::jwks;
use super::keys::{KeySet, Signed, SigningAlgorithm, VerifyingKey};
use super::remote::{JwksUrl, RemoteKeys};
use super::secret::Secret;
use super::token::TokenProblem;

/// Clocks that differ by more are broken.
const MAX_LEEWAY: Duration = Duration::from_secs(60);

/// Which tokens are accepted, and what is read from them.
#[derive(Clone, Debug)]
pub struct JwtConfig {
    /// The keys of the issuer.
    pub keys: TokenKeys,
    /// The algorithms that are accepted. Empty: those the keys are made for.
    pub algorithms: Vec<SigningAlgorithm>,
    /// What `iss` must be.
    pub issuer: Option<String>,
    /// Names of this service, one of which must be in `aud`. Empty: `aud` is ignored, and tokens that
    /// the issuer made for other services count as well.
    pub audiences: Vec<String>,
    /// How far the clocks of issuer and verifier may differ: 30 seconds by default, at most 60.
    pub leeway: Duration,
    /// The claim that names the user: `sub` by default. Claims are given by name, or by a path such
    /// as `app.tier`.
    pub user_claim: String,
    /// The claim that names the tenant.
    pub tenant_claim: Option<String>,
    /// The claim that names the tier.
    pub tier_claim: Option<String>,
}

impl JwtConfig {
    /// Tokens of these keys, with `sub` as the user.
    #[must_use]
    pub fn new(keys: TokenKeys) -> Self {
        Self {
            keys,
            algorithms: Vec::new(),
            issuer: None,
            audiences: Vec::new(),
            leeway: Duration::from_secs(30),
            user_claim: "sub".to_owned(),
            tenant_claim: None,
            tier_claim: None,
        }
    }
}

/// Where the keys that verify tokens come from.
#[derive(Clone, Debug)]
pub enum TokenKeys {
    /// A secret shared with the issuer, of at least 32 bytes (HS256).
    Secret(Secret),
    /// A public key in PEM: RSA (RS256), P-256 (ES256) or Ed25519 (`EdDSA`).
    Pem(Secret),
    /// A file with a set of public keys, read once.
    JwksFile(PathBuf),
    /// A URL with a set of public keys.
    JwksUrl(JwksUrl),
}

impl TokenKeys {
    /// What people call this way to give keys.
    const fn setting(&self) -> &'static str {
        match self {
            Self::Secret(_) => "jwt.secret",
            Self::Pem(_) => "jwt.public_key",
            Self::JwksFile(_) => "jwt.jwks_file",
            Self::JwksUrl(_) => "jwt.jwks_url",
        }
    }
}

/// [`JwtConfig`], checked.
#[derive(Debug)]
pub(super) struct Verifier {
    keys: Keys,
    algorithms: Vec<SigningAlgorithm>,
    issuer: Option<String>,
    audiences: Vec<String>,
    leeway: Micros,
    user_claim: String,
    tenant_claim: Option<String>,
    tier_claim: Option<String>,
}

#[derive(Debug)]
enum Keys {
    One(Box<VerifyingKey>),
    Set(KeySet),
    Remote(Arc<RemoteKeys>),
}

impl Verifier {
    pub(super) fn new(config: JwtConfig) -> Result<Self, IdentityError> {
        let setting = config.keys.setting();
        let keys = Keys::new(config.keys).map_err(|why| IdentityError::new(setting, why))?;
        let possible = keys.algorithms();
        if let Some(other) = config.algorithms.iter().find(|wanted| !possible.contains(wanted)) {
            let names = possible.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let problem = format!("{other} does not go with these keys, which are for {names}");
            return Err(IdentityError::new("jwt.algorithms", problem));
        }
        if config.leeway > MAX_LEEWAY {
            let problem = format!("{:?}; it can be up to {MAX_LEEWAY:?}", config.leeway);
            return Err(IdentityError::new("jwt.leeway", problem));
        }
        let algorithms = if config.algorithms.is_empty() { possible } else { config.algorithms };
        Ok(Self {
            keys,
            algorithms,
            issuer: config.issuer,
            audiences: config.audiences,
            leeway: Micros::new(u64::try_from(config.leeway.as_micros()).unwrap_or(u64::MAX)),
            user_claim: config.user_claim,
            tenant_claim: config.tenant_claim,
            tier_claim: config.tier_claim,
        })
    }

    pub(super) fn key_failure(&self) -> Option<String> {
        match &self.keys {
            Keys::Remote(remote) => remote.failure(),
            Keys::One(_) | Keys::Set(_) => None,
        }
    }

    /// Verifies a token: first its signature, then its issuer, audience and times.
    pub(super) async fn verify(&self, token: &str, now: Timestamp) -> Result<Holder, TokenProblem> {
        let token = CompactToken::parse(token)?;
        if !self.algorithms.contains(&token.algorithm) {
            return Err(TokenProblem::Algorithm);
        }
        self.keys.verify(token.signed(), now).await?;
        self.holder(&token.claims()?, now)
    }

    fn holder(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<Holder, TokenProblem> {
        self.check_times(claims, now)?;
        if let Some(issuer) = &self.issuer
            && claims.get("iss").and_then(Value::as_str) != Some(issuer)
        {
            return Err(TokenProblem::Issuer);
        }
        if !self.audiences.is_empty() && !self.is_for_us(claims.get("aud")) {
            return Err(TokenProblem::Audience);
        }
        if claims.get("sub").is_some_and(|subject| !subject.is_string()) {
            return Err(TokenProblem::User);
        }
        let user = claims::find(claims, &self.user_claim);
        let user = user.map(|user| claims::text(user).ok_or(TokenProblem::User)).transpose()?;
        let text = |path: &Option<String>| claims::text(claims::find(claims, path.as_ref()?)?);
        Ok(Holder {
            user_id: user,
            tenant: text(&self.tenant_claim),
            tier: text(&self.tier_claim),
            claims: Claims::from_json(claims),
        })
    }

    fn check_times(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<(), TokenProblem> {
        let expiry = moment(claims, "exp")?.ok_or(TokenProblem::NoExpiry)?;
        if now >= expiry.plus(self.leeway) {
            return Err(TokenProblem::Expired);
        }
        for name in ["nbf", "iat"] {
            let begin = moment(claims, name)?;
            if begin.is_some_and(|begin| begin > now.plus(self.leeway)) {
                return Err(TokenProblem::NotYetValid);
            }
        }
        Ok(())
    }

    /// An audience is one name, or a list of names.
    fn is_for_us(&self, audience: Option<&Value>) -> bool {
        let is_ours = |name: &Value| {
            name.as_str().is_some_and(|name| self.audiences.iter().any(|ours| ours == name))
        };
        match audience {
            Some(Value::Array(names)) => names.iter().any(is_ours),
            Some(name) => is_ours(name),
            None => false,
        }
    }
}

impl Keys {
    fn new(keys: TokenKeys) -> Result<Self, String> {
        let one = |key: Result<VerifyingKey, String>| Ok(Self::One(Box::new(key?)));
        match keys {
            TokenKeys::Secret(secret) => one(VerifyingKey::from_secret(secret.expose())),
            TokenKeys::Pem(text) => one(VerifyingKey::from_pem(text.expose())),
            TokenKeys::JwksUrl(source) => Ok(Self::Remote(Arc::new(RemoteKeys::new(source)?))),
            TokenKeys::JwksFile(path) => {
                let text = fs::read(&path).map_err(|error| error.to_string());
                let parsed = text.and_then(|text| jwks::parse(&text));
                let parsed = parsed.map_err(|why| format!("{}: {why}", path.display()))?;
                match parsed.why_empty() {
                    Some(why) => Err(format!("{}: {why}", path.display())),
                    None => Ok(Self::Set(parsed.keys)),
                }
            }
        }
    }

    fn algorithms(&self) -> Vec<SigningAlgorithm> {
        match self {
            Self::One(key) => vec![key.algorithm],
            Self::Set(_) | Self::Remote(_) => SigningAlgorithm::PUBLIC.to_vec(),
        }
    }

    async fn verify(&self, signed: Signed<'_>, now: Timestamp) -> Result<(), TokenProblem> {
        match self {
            // The only key needs no name.
            Self::One(key) => key.verify(signed),
            Self::Set(set) => set.verify(signed),
            Self::Remote(remote) => {
                let loaded = remote.for_token(signed.kid, now).await;
                loaded.at.ok_or(TokenProblem::KeysUnavailable)?;
                loaded.keys.verify(signed)
            }
        }
    }
}

/// A time in a claim: seconds since 1970, perhaps with a fraction.
fn moment(claims: &Map<String, Value>, name: &str) -> Result<Option<Timestamp>, TokenProblem> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(seconds)) => Ok(Some(timestamp(seconds))),
        Some(_) => Err(TokenProblem::Malformed),
    }
}

/// Times before 1970 become its first microsecond, those beyond the last timestamp become that.
fn timestamp(seconds: &Number) -> Timestamp {
    match seconds.as_u64() {
        Some(seconds) => Timestamp::from_secs(seconds),
        None => Timestamp::from_micros((seconds.as_f64().unwrap_or_default() * 1e6) as u64),
    }
}
