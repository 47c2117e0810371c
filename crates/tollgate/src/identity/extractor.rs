//! From headers and a peer to an identity: each kind of credential is read, and the strongest wins.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tollgate_core::Timestamp;
use tollgate_rules::client_address;

use super::api_key::{ApiKeyConfig, ApiKeyring, KnownKey};
use super::claims::{Claims, Holder};
use super::client_ip::{ClientIp, ClientIpConfig};
use super::credential_problem::{CredentialProblem, Unverified};
use super::error::IdentityError;
#[cfg(feature = "jwt")]
use super::jwt::{JwtConfig, Verifier};
use super::secret::Secret;
use super::token::{TokenProblem, TokenVerdict};

/// The longest tenant or tier in a header, in bytes.
const MAX_NAME_BYTES: usize = 512;

/// How clients are identified. The default trusts only the address of the peer.
#[derive(Clone, Debug, Default)]
pub struct IdentityConfig {
    /// The address of the client.
    pub client_ip: ClientIpConfig,
    /// API keys.
    pub api_key: ApiKeyConfig,
    /// Signed tokens. Without this, `Authorization` is ignored.
    #[cfg(feature = "jwt")]
    pub jwt: Option<JwtConfig>,
    /// A header with the tenant of the request. It is read only from trusted proxies, and they must
    /// overwrite it: else clients choose their tenant themselves.
    pub tenant_header: Option<HeaderName>,
    /// A header with the tier of the client. It is read only from trusted proxies, like the tenant.
    pub tier_header: Option<HeaderName>,
    /// What to do with tokens and API keys that cannot be verified.
    pub unverified: Unverified,
}

/// The client of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user, by a verified token or by the owner of a known API key.
    pub user_id: Option<String>,
    /// The API key, if it counts.
    pub api_key: Option<Secret>,
    /// The address of the client. Of an IPv6 address only the network, as the first address in it.
    pub ip: String,
    /// The tenant, by token, API key or header, in this order.
    pub tenant: Option<String>,
    /// The tier, by token, API key or header, in this order.
    pub tier: Option<String>,
    /// What a verified token says.
    pub claims: Claims,
    /// Whether there was a token, and whether it was verified.
    pub token: TokenVerdict,
    /// Why the request has to be refused for its credentials. If it is not, clients use a credential
    /// without its quota: an upstream may accept what does not count here.
    pub credential_problem: Option<CredentialProblem>,
}

/// Identifies the client of a request. Made once, shared by all requests.
#[derive(Debug)]
pub struct Extractor {
    client_ip: ClientIp,
    api_keys: ApiKeyring,
    #[cfg(feature = "jwt")]
    verifier: Option<Verifier>,
    tenant_header: Option<HeaderName>,
    tier_header: Option<HeaderName>,
    unverified: Unverified,
}

impl Extractor {
    /// Checks the settings and reads the files they name. Keys at a URL are fetched when the first
    /// token needs them, so that a server starts while the issuer is down.
    ///
    /// # Errors
    /// Which setting cannot be used, and why.
    pub fn new(config: IdentityConfig) -> Result<Self, IdentityError> {
        Ok(Self {
            client_ip: ClientIp::new(config.client_ip)?,
            api_keys: ApiKeyring::new(config.api_key)?,
            #[cfg(feature = "jwt")]
            verifier: config.jwt.map(Verifier::new).transpose()?,
            tenant_header: config.tenant_header,
            tier_header: config.tier_header,
            unverified: config.unverified,
        })
    }

    /// Identifies the client of a request. A credential that cannot be verified is ignored.
    ///
    /// A bad token does not take a good API key away: else clients could get rid of the limits of
    /// their key by sending nonsense along.
    ///
    /// This waits only for keys at a URL, at most until their deadline.
    pub async fn identify(&self, headers: &HeaderMap, peer: IpAddr, now: Timestamp) -> Identity {
        let peer = peer.to_canonical();
        let ip = self.client_ip.text(self.client_ip.find(headers, peer));
        let authorization = only_value(headers, &AUTHORIZATION);
        let key = only_value(headers, self.api_keys.header());
        let (token, holder) = match self.holder(authorization, now).await {
            None => (TokenVerdict::Absent, Holder::default()),
            Some(Ok(holder)) => (TokenVerdict::Verified, holder),
            Some(Err(problem)) => (TokenVerdict::Rejected(problem), Holder::default()),
        };
        let presented = key.ok().flatten().and_then(|key| self.api_keys.find(key));
        let credential_problem = self
            .token_problem(authorization, token)
            .or_else(|| self.key_problem(key, presented.is_some()));
        let known = presented.as_ref().and_then(|presented| presented.known.as_deref());
        let believed = self.client_ip.trusts(peer).then_some(headers);
        let named = |name: &Option<HeaderName>| name_in(believed?, name.as_ref()?);
        Identity {
            user_id: holder.user_id.or_else(|| known?.owner.clone()),
            api_key: presented.as_ref().map(|presented| presented.key.into()),
            ip,
            tenant: holder
                .tenant
                .or_else(|| known?.tenant.clone())
                .or_else(|| named(&self.tenant_header)),
            tier: holder.tier.or_else(|| known?.tier.clone()).or_else(|| named(&self.tier_header)),
            claims: holder.claims,
            token,
            credential_problem,
        }
    }
}

impl Extractor {
    /// The address of the client, as reported by trusted proxies.
    #[must_use]
    pub fn client_address(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        client_address(self.client_ip.find(headers, peer.to_canonical()))
    }

    /// Replaces the known API keys that come and go, besides those of the configuration.
    pub fn set_known_keys(&self, keys: impl IntoIterator<Item = KnownKey>) {
        self.api_keys.set_changing(keys);
    }
}

#[cfg(feature = "jwt")]
impl Extractor {
    /// Why the newest attempt to fetch keys from a URL failed; `None` if it did not, or there was
    /// none. Keys that were fetched before stay in use.
    #[must_use]
    pub fn key_failure(&self) -> Option<String> {
        self.verifier.as_ref()?.key_failure()
    }

    async fn holder(
        &self,
        authorization: Result<Option<&HeaderValue>, Ambiguous>,
        now: Timestamp,
    ) -> Option<Result<Holder, TokenProblem>> {
        let verifier = self.verifier.as_ref()?;
        let Ok(authorization) = authorization else { return Some(Err(TokenProblem::Ambiguous)) };
        Some(match bearer_token(authorization?)? {
            // On the heap: requests without a token would have to hold it too.
            Ok(token) => Box::pin(verifier.verify(token, now)).await,
            Err(Ambiguous) => Err(TokenProblem::Ambiguous),
        })
    }
}

#[cfg(not(feature = "jwt"))]
impl Extractor {
    async fn holder(
        &self,
        _: Result<Option<&HeaderValue>, Ambiguous>,
        _: Timestamp,
    ) -> Option<Result<Holder, TokenProblem>> {
        None
    }
}

impl Extractor {
    /// Why a request with this `Authorization` has to be refused.
    fn token_problem(
        &self,
        authorization: Result<Option<&HeaderValue>, Ambiguous>,
        token: TokenVerdict,
    ) -> Option<CredentialProblem> {
        if authorization.is_err() {
            return Some(CredentialProblem::RepeatedAuthorization);
        }
        let TokenVerdict::Rejected(problem) = token else { return None };
        match problem {
            TokenProblem::Ambiguous => Some(CredentialProblem::UnclearToken),
            TokenProblem::TooLong => Some(CredentialProblem::LongToken),
            _ if self.unverified == Unverified::Ignore => None,
            problem => Some(CredentialProblem::InvalidToken(problem)),
        }
    }

    /// Why a request with this API key has to be refused.
    fn key_problem(
        &self,
        key: Result<Option<&HeaderValue>, Ambiguous>,
        counts: bool,
    ) -> Option<CredentialProblem> {
        let Ok(key) = key else { return Some(CredentialProblem::RepeatedApiKey) };
        let key = key?.as_bytes().trim_ascii();
        if !key.is_ascii() {
            return Some(CredentialProblem::UnclearApiKey);
        }
        let is_unknown = !counts && !key.is_empty();
        (is_unknown && self.unverified == Unverified::Refuse)
            .then_some(CredentialProblem::UnknownApiKey)
    }
}

/// A credential was sent several times, each time another.
#[derive(Clone, Copy, Debug)]
struct Ambiguous;

/// The value of a header that can have only one. Repeating the same value changes nothing.
fn only_value<'a>(
    headers: &'a HeaderMap,
    header: &HeaderName,
) -> Result<Option<&'a HeaderValue>, Ambiguous> {
    let mut lines = headers.get_all(header).iter();
    let first = lines.next();
    if lines.any(|line| Some(line) != first) { Err(Ambiguous) } else { Ok(first) }
}

/// A tenant or a tier that a trusted proxy wrote. Of two lines one is the client's, so none counts.
fn name_in(headers: &HeaderMap, header: &HeaderName) -> Option<String> {
    let mut lines = headers.get_all(header).iter();
    let name = lines.next()?.to_str().ok()?.trim();
    let is_usable = (1..=MAX_NAME_BYTES).contains(&name.len()) && lines.next().is_none();
    is_usable.then(|| name.to_owned())
}

/// The token behind `Bearer`; `None` if there is another scheme.
///
/// Servers look for it in many ways: some split at any white space, which may be a no-break space to them,
/// some cut off six characters, some take the first of several words. Where those ways could find a token
/// that this one does not, the header is ambiguous.
#[cfg(feature = "jwt")]
fn bearer_token(authorization: &HeaderValue) -> Option<Result<&str, Ambiguous>> {
    const SCHEME: &[u8] = b"bearer";
    let line = authorization.as_bytes().trim_ascii();
    let names_scheme = |window: &[u8]| window.eq_ignore_ascii_case(SCHEME);
    if !line.is_ascii() {
        return line.windows(SCHEME.len()).any(names_scheme).then_some(Err(Ambiguous));
    }
    let (scheme, rest) = line.split_at_checked(SCHEME.len())?;
    if !names_scheme(scheme) {
        return None;
    }
    let is_separated = rest.first().is_none_or(u8::is_ascii_whitespace);
    let token = str::from_utf8(rest.trim_ascii()).map_err(|_| Ambiguous);
    let is_one_word = |token: &&str| token.bytes().all(|byte| byte.is_ascii_graphic());
    Some(token.and_then(|token| {
        Some(token).filter(is_one_word).filter(|_| is_separated).ok_or(Ambiguous)
    }))
}
