//! Authentication and permissions: tokens of the catalog, up to two tokens of the settings, client
//! certificates.

mod session_binding;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep;
use tollgate::Timestamp;
use tollgate::rules::parse_time;
use tollgate_catalog::{Role, Token};

use crate::edge::http::problem::Problem;
use crate::edge::listen::CertificateDigest;
pub(crate) use session_binding::SessionBinding;

/// The header for a token where `Authorization` has another use, as behind a proxy.
pub(crate) const TOKEN_HEADER: &str = "x-tollgate-token";

/// The problem code of a call without a token.
pub(crate) const TOKEN_REQUIRED: &str = "token_required";
/// The problem code of a call whose token lacks the permission.
pub(crate) const RIGHT_MISSING: &str = "right_missing";
/// The problem code that counts as a failed login.
pub(crate) const WRONG_TOKEN: &str = "wrong_token";

/// How often the clock is read while waiting for a token to expire.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);

/// The permission that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// To check whether requests may pass.
    Caller,
    /// To peek: check a request without charging it.
    Look,
    /// To read what all tenants share: decisions, clients, the audit log.
    Viewer,
    /// To read rules and lists, maybe those of one tenant only.
    RuleViewer,
    /// To change rules and lists, maybe those of one tenant only.
    RuleEditor,
    /// To change what all tenants share: counters, clients, tiers, API keys.
    Operator,
    /// To read and change tokens.
    Admin,
}

impl Right {
    /// The least role that has it, for messages.
    const fn name(self) -> &'static str {
        match self {
            Self::Caller | Self::Look => Role::Caller.name(),
            Self::Viewer | Self::RuleViewer => Role::Viewer.name(),
            Self::Operator | Self::RuleEditor => Role::Operator.name(),
            Self::Admin => Role::Admin.name(),
        }
    }

    /// Whether the settings can grant it without a token.
    const fn is_for_callers(self) -> bool {
        matches!(self, Self::Caller | Self::Look)
    }

    pub(crate) const fn is_of(self, role: Role) -> bool {
        match role {
            Role::Admin => true,
            Role::Operator => !matches!(self, Self::Admin),
            Role::Viewer => matches!(self, Self::Look | Self::Viewer | Self::RuleViewer),
            Role::Caller => self.is_for_callers(),
            Role::TenantAdmin => matches!(self, Self::RuleViewer | Self::RuleEditor),
        }
    }
}

/// Who is calling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    /// A caller without a token, where none is required.
    Anonymous,
    /// The holder of the token for the check API that is in the settings.
    Caller,
    /// The holder of a client certificate.
    Certified(CertificateDigest),
    /// The holder of the token for administrators that is in the settings.
    Admin,
    /// The holder of a token of the catalog.
    Token(Arc<Token>),
}

impl Principal {
    /// Names it, in the audit log and where calls are counted.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Caller | Self::Certified(_) => "caller",
            Self::Admin => "admin",
            Self::Token(token) => &token.token_id,
        }
    }

    pub(crate) fn role(&self) -> Role {
        match self {
            Self::Anonymous | Self::Caller | Self::Certified(_) => Role::Caller,
            Self::Admin => Role::Admin,
            Self::Token(token) => token.role,
        }
    }

    /// The only tenant whose rules it may see and change.
    pub(crate) fn tenant(&self) -> Option<&str> {
        match self {
            Self::Token(token) => token.tenant.as_deref(),
            _ => None,
        }
    }
}

/// How callers of the check API authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckAccess {
    /// Not at all: every client that reaches the port may check.
    None,
    /// By a token.
    Token,
    /// By a client certificate, which the listener verified.
    Certificate,
}

/// The valid tokens of this server. Only their digests are kept.
pub(crate) struct Tokens {
    check_auth: CheckAccess,
    admin: Option<TokenDigest>,
    caller: Option<TokenDigest>,
    /// The tokens of the catalog, by their ids.
    catalog: ArcSwap<HashMap<String, Arc<Token>>>,
    /// Notifies when the tokens of the catalog change.
    changes: watch::Sender<()>,
    /// Ids of the catalog's tokens that were used since the last [`Tokens::take_used`].
    used: Mutex<HashSet<String>>,
}

type TokenDigest = [u8; SHA256_OUTPUT_LEN];

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("check_auth", &self.check_auth).finish_non_exhaustive()
    }
}

impl Tokens {
    pub(crate) fn new(check_auth: CheckAccess, admin: Option<&str>, caller: Option<&str>) -> Self {
        Self {
            check_auth,
            admin: admin.map(digest_of),
            caller: caller.map(digest_of),
            catalog: ArcSwap::default(),
            changes: watch::Sender::new(()),
            used: Mutex::default(),
        }
    }

    /// Takes over the tokens of the catalog.
    pub(crate) fn set_catalog(&self, tokens: &HashMap<String, Token>) {
        let shared = tokens.iter().map(|(id, token)| (id.clone(), Arc::new(token.clone())));
        self.catalog.store(Arc::new(shared.collect()));
        self.changes.send_replace(());
    }

    /// Waits until the token of a principal is revoked, has expired, or has another role or tenant.
    pub(crate) async fn until_invalid(&self, principal: &Principal, now: impl Fn() -> Timestamp) {
        let Principal::Token(known) = principal else {
            return std::future::pending().await;
        };
        let mut changes = self.changes.subscribe();
        loop {
            let now = now();
            let Some(current) = self.current(known, now) else { return };
            let end = current.expires_at.as_deref().and_then(parse_time);
            let left = end.map_or(EXPIRY_INTERVAL, |end| end.since(now).into());
            tokio::select! {
                // The sender is a field of `self`, so the channel cannot be closed.
                _ = changes.changed() => {}
                () = sleep(left.min(EXPIRY_INTERVAL)) => {}
            }
        }
    }

    /// Confirms that the token of a principal was neither revoked nor changed since, and has not expired.
    pub(crate) fn confirm(&self, principal: &Principal, now: Timestamp) -> Result<(), Problem> {
        match principal {
            Principal::Token(known) if self.current(known, now).is_none() => Err(wrong_token()),
            _ => Ok(()),
        }
    }

    /// The token as it is now; `None` if it was revoked, has expired, or has another role or tenant.
    fn current(&self, known: &Token, now: Timestamp) -> Option<Arc<Token>> {
        let current = self.catalog.load().get(&known.token_id).cloned()?;
        let is_same = current.digest == known.digest
            && (current.role, &current.tenant) == (known.role, &known.tenant)
            && !current.is_over(now);
        is_same.then_some(current)
    }

    /// Whether the settings have a token for administrators.
    pub(crate) const fn has_admin_in_settings(&self) -> bool {
        self.admin.is_some()
    }

    /// Takes the ids of the catalog's tokens that were used since the last call.
    pub(crate) fn take_used(&self) -> HashSet<String> {
        std::mem::take(&mut *self.used.lock())
    }

    /// Whether a call with this certificate needs a token for this permission.
    pub(crate) fn needs_token(&self, certificate: Option<CertificateDigest>, right: Right) -> bool {
        !right.is_for_callers()
            || match self.check_auth {
                CheckAccess::None => false,
                CheckAccess::Token => true,
                CheckAccess::Certificate => certificate.is_none(),
            }
    }

    /// The caller, if it is authenticated and has the permission.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        certificate: Option<CertificateDigest>,
        right: Right,
        now: Timestamp,
    ) -> Result<Principal, Problem> {
        if !self.needs_token(certificate, right) {
            return Ok(certificate.map_or(Principal::Anonymous, Principal::Certified));
        }
        let Some(token) = token_of(headers) else { return Err(self.unauthorized(right)) };
        let principal = self.principal(token).ok_or_else(wrong_token)?;
        if let Principal::Token(token) = &principal
            && token.is_over(now)
        {
            let end = token.expires_at.as_deref().unwrap_or_default();
            return Err(expired_token(end));
        }
        if right.is_of(principal.role()) {
            Ok(principal)
        } else {
            Err(forbidden(&principal, right))
        }
    }

    fn principal(&self, token: &[u8]) -> Option<Principal> {
        let presented = digest(&SHA256, token);
        let is = |known: &TokenDigest| verify_slices_are_equal(presented.as_ref(), known).is_ok();
        if self.admin.as_ref().is_some_and(is) {
            return Some(Principal::Admin);
        }
        if self.caller.as_ref().is_some_and(is) {
            return Some(Principal::Caller);
        }
        // The id is not secret, so a lookup is fine; the rest is compared in constant time.
        let catalog = self.catalog.load();
        let known = catalog.get(Token::id_in(token)?)?;
        if !known.is(token) {
            return None;
        }
        self.note_use(&known.token_id);
        Some(Principal::Token(Arc::clone(known)))
    }

    /// Notes that a token of the catalog was used.
    fn note_use(&self, token_id: &str) {
        let mut used = self.used.lock();
        if !used.contains(token_id) {
            used.insert(token_id.to_owned());
        }
    }

    fn unauthorized(&self, right: Right) -> Problem {
        let detail = match (right, self.check_auth) {
            (Right::Caller | Right::Look, CheckAccess::Certificate) => {
                "the check API needs a client certificate, or a token".to_owned()
            }
            _ => format!(
                "this call needs a token of role `{}`: send `Authorization: Bearer TOKEN`",
                right.name()
            ),
        };
        challenge(Problem::new(StatusCode::UNAUTHORIZED, TOKEN_REQUIRED, detail))
    }
}

fn digest_of(token: &str) -> TokenDigest {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

/// The token of a request: from `X-Tollgate-Token`, else from `Authorization`.
fn token_of(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(token) = headers.get(TOKEN_HEADER) {
        return Some(token.as_bytes());
    }
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

fn wrong_token() -> Problem {
    let detail = "the token is not known here. A server with a catalog prints one at its first start; \
                  `tollgate tokens create --role admin --catalog URL`, run where the server runs, makes \
                  another (the URL is sqlite:tollgate.db unless it was set). A server with a rules file \
                  prints one at every start. TOLLGATE_ADMIN_TOKEN sets one for both";
    challenge(Problem::new(StatusCode::UNAUTHORIZED, WRONG_TOKEN, detail))
}

fn expired_token(end: &str) -> Problem {
    let detail = format!("the token ended at {end}; ask an administrator for another one");
    challenge(Problem::new(StatusCode::UNAUTHORIZED, "expired_token", detail))
}

fn challenge(problem: Problem) -> Problem {
    let realm = HeaderValue::from_static("Bearer realm=\"tollgate\"");
    problem.with_header(header::WWW_AUTHENTICATE, realm)
}

/// The problem of a call without the permission it needs.
pub(crate) fn forbidden(principal: &Principal, right: Right) -> Problem {
    let (has, needs) = (principal.role().name(), right.name());
    let detail = format!("this call needs the role `{needs}`; the token is one of role `{has}`");
    Problem::new(StatusCode::FORBIDDEN, RIGHT_MISSING, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;

    const NOW: Timestamp = Timestamp::from_secs(10);
    const NONE: CheckAccess = CheckAccess::None;
    const TOKEN: CheckAccess = CheckAccess::Token;
    const CERTIFICATE: CheckAccess = CheckAccess::Certificate;

    fn headers(line: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = line.split_once(": ") {
            let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a header name");
            headers.insert(name, HeaderValue::from_str(value).expect("a header value"));
        }
        headers
    }

    #[test]
    fn callers_are_admitted_by_token_or_certificate() {
        let check =
            |auth: CheckAccess, line: &str, certificate: bool, right: Right, expected: &str| {
                let tokens = Tokens::new(auth, Some("admin-token"), Some("caller-token"));
                let certificate = certificate
                    .then(|| CertificateDigest::of(&CertificateDer::from_slice(b"a certificate")));
                let got = match tokens.admit(&headers(line), certificate, right, NOW) {
                    Ok(principal) => principal.name().to_owned(),
                    Err(problem) => problem.status().as_u16().to_string(),
                };
                assert_eq!(got, expected, "{auth:?} {line} {right:?}");
            };
        check(NONE, "", false, Right::Caller, "anonymous");
        check(NONE, "authorization: Bearer nonsense", false, Right::Caller, "anonymous");
        check(NONE, "", false, Right::Operator, "401");
        check(NONE, "authorization: Bearer admin-token", false, Right::Operator, "admin");
        check(NONE, "authorization: bearer  admin-token ", false, Right::Viewer, "admin");
        check(NONE, "authorization: Basic admin-token", false, Right::Viewer, "401");
        check(NONE, "authorization: Bearer", false, Right::Viewer, "401");
        check(NONE, "authorization: Bearer admin-tokem", false, Right::Viewer, "401");
        check(NONE, "authorization: Bearer caller-token", false, Right::Viewer, "403");
        check(NONE, "x-tollgate-token: admin-token", false, Right::Viewer, "admin");
        check(TOKEN, "", false, Right::Caller, "401");
        check(TOKEN, "", true, Right::Caller, "401");
        check(TOKEN, "authorization: Bearer caller-token", false, Right::Caller, "caller");
        check(TOKEN, "authorization: Bearer admin-token", false, Right::Caller, "admin");
        check(TOKEN, "x-tollgate-token: caller-token", false, Right::Caller, "caller");
        check(CERTIFICATE, "", true, Right::Caller, "caller");
        check(CERTIFICATE, "", false, Right::Caller, "401");
        check(CERTIFICATE, "", true, Right::Operator, "401");
    }

    #[test]
    fn tokens_are_not_printed() {
        let tokens = Tokens::new(TOKEN, Some("admin-token"), Some("caller-token"));
        assert_eq!(format!("{tokens:?}"), "Tokens { check_auth: Token, .. }");
    }

    #[test]
    fn tokens_of_the_catalog_have_the_permissions_of_their_role() {
        use Right::{Admin, Caller, Look, Operator, RuleEditor, RuleViewer, Viewer};
        let check = |role: Role, allowed: &[Right]| {
            let (mut token, shown) = Token::create(role).expect("random numbers");
            let tokens = Tokens::new(TOKEN, None, None);
            let line = format!("authorization: Bearer {shown}");
            let ask = |right| tokens.admit(&headers(&line), None, right, NOW);
            assert_eq!(ask(Caller).expect_err("unknown yet").code(), WRONG_TOKEN);
            tokens.set_catalog(&[(token.token_id.clone(), token.clone())].into());
            for right in [Caller, Look, Viewer, RuleViewer, RuleEditor, Operator, Admin] {
                assert_eq!(ask(right).is_ok(), allowed.contains(&right), "{role:?} {right:?}");
            }
            assert_eq!(tokens.take_used(), [token.token_id.clone()].into());
            assert!(tokens.take_used().is_empty());
            token.expires_at = Some("1970-01-01T00:00:10Z".to_owned());
            tokens.set_catalog(&[(token.token_id.clone(), token)].into());
            assert_eq!(ask(Caller).expect_err("an expired token").code(), "expired_token");
        };
        check(Role::Admin, &[Caller, Look, Viewer, RuleViewer, RuleEditor, Operator, Admin]);
        check(Role::Operator, &[Caller, Look, Viewer, RuleViewer, RuleEditor, Operator]);
        check(Role::Viewer, &[Look, Viewer, RuleViewer]);
        check(Role::Caller, &[Caller, Look]);
        check(Role::TenantAdmin, &[RuleViewer, RuleEditor]);
    }

    #[tokio::test]
    async fn a_token_is_invalid_once_it_is_revoked_or_changed() {
        let (token, _) = Token::create(Role::Viewer).expect("random numbers");
        let tokens = Tokens::new(NONE, None, None);
        let set = |token: &Token| {
            tokens.set_catalog(&[(token.token_id.clone(), token.clone())].into());
        };
        let principal = Principal::Token(Arc::new(token.clone()));
        let is_invalid = async || {
            let waiting = tokens.until_invalid(&principal, || NOW);
            tokio::time::timeout(Duration::ZERO, waiting).await.is_ok()
        };
        let ended = Some("1970-01-01T00:00:10Z".to_owned());
        for changed in [
            Token { role: Role::Caller, ..token.clone() },
            Token { tenant: Some("acme".to_owned()), ..token.clone() },
            Token { expires_at: ended, ..token.clone() },
            Token { digest: "0".repeat(64), ..token.clone() },
        ] {
            set(&token);
            assert!(!is_invalid().await);
            set(&changed);
            assert!(is_invalid().await, "{changed:?}");
        }
        set(&token);
        assert!(!is_invalid().await);
        tokens.set_catalog(&HashMap::new());
        assert!(is_invalid().await);
    }
}
