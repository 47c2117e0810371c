//! Who may call what: one token for administrators, one for callers of the check API.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::listen::CertificateDigest;
use crate::problem::Problem;

/// The header for a token where `Authorization` belongs to somebody else, as behind a proxy.
pub(crate) const TOKEN_HEADER: &str = "x-tollgate-token";

/// The code of the problem that counts as a failed login.
pub(crate) const WRONG_TOKEN: &str = "wrong_token";

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// To ask whether requests may pass.
    Caller,
    /// To read rules and decisions.
    Viewer,
    /// To give back and to forget.
    Operator,
}

impl Right {
    const fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }
}

/// Who is calling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Principal {
    /// Nobody in particular, where no token is asked for.
    Anonymous,
    /// The holder of the token for the check API.
    Caller,
    /// The holder of a client certificate.
    Certified(CertificateDigest),
    /// The holder of the token for administrators.
    Admin,
}

impl Principal {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Caller | Self::Certified(_) => "caller",
            Self::Admin => "admin",
        }
    }

    const fn has(self, right: Right) -> bool {
        match self {
            Self::Anonymous | Self::Caller | Self::Certified(_) => {
                matches!(right, Right::Caller)
            }
            Self::Admin => true,
        }
    }
}

/// How callers of the check API are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckAuth {
    /// Not at all: whoever reaches the port may ask.
    None,
    /// By a token.
    Token,
    /// By a client certificate, which the listener verified.
    Certificate,
}

/// The tokens that open this server. Only their digests are kept.
pub(crate) struct Tokens {
    check_auth: CheckAuth,
    admin: Digest,
    caller: Option<Digest>,
}

type Digest = [u8; SHA256_OUTPUT_LEN];

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("check_auth", &self.check_auth).finish_non_exhaustive()
    }
}

impl Tokens {
    pub(crate) fn new(check_auth: CheckAuth, admin: &str, caller: Option<&str>) -> Self {
        Self { check_auth, admin: digest_of(admin), caller: caller.map(digest_of) }
    }

    /// Whether a token is what decides.
    pub(crate) fn needs_token(&self, certificate: Option<CertificateDigest>, right: Right) -> bool {
        right > Right::Caller
            || match self.check_auth {
                CheckAuth::None => false,
                CheckAuth::Token => true,
                CheckAuth::Certificate => certificate.is_none(),
            }
    }

    /// Who is calling, if that is enough for what is called.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        certificate: Option<CertificateDigest>,
        right: Right,
    ) -> Result<Principal, Problem> {
        if !self.needs_token(certificate, right) {
            return Ok(certificate.map_or(Principal::Anonymous, Principal::Certified));
        }
        let Some(token) = token_of(headers) else { return Err(self.unauthorized(right)) };
        let principal = self.principal(token).ok_or_else(wrong_token)?;
        if principal.has(right) { Ok(principal) } else { Err(forbidden(principal, right)) }
    }

    fn principal(&self, token: &[u8]) -> Option<Principal> {
        let presented = digest(&SHA256, token);
        let is = |known: &Digest| verify_slices_are_equal(presented.as_ref(), known).is_ok();
        if is(&self.admin) {
            return Some(Principal::Admin);
        }
        self.caller.as_ref().filter(|caller| is(caller)).map(|_| Principal::Caller)
    }

    fn unauthorized(&self, right: Right) -> Problem {
        let detail = match (right, self.check_auth) {
            (Right::Caller, CheckAuth::Certificate) => {
                "the check API needs a client certificate, or the admin token".to_owned()
            }
            _ => format!(
                "this call needs the right `{}`: send `Authorization: Bearer TOKEN`",
                right.name()
            ),
        };
        challenge(Problem::new(StatusCode::UNAUTHORIZED, "token_required", detail))
    }
}

fn digest_of(token: &str) -> Digest {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

/// The token of a request: our own header first, then the usual one.
fn token_of(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(token) = headers.get(TOKEN_HEADER) {
        return Some(token.as_bytes());
    }
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

fn wrong_token() -> Problem {
    let detail = "the token is not known here; the admin token is the one that was printed when \
                  the server started, or set by TOLLGATE_ADMIN_TOKEN";
    challenge(Problem::new(StatusCode::UNAUTHORIZED, WRONG_TOKEN, detail))
}

fn challenge(problem: Problem) -> Problem {
    let realm = HeaderValue::from_static("Bearer realm=\"tollgate\"");
    problem.with_header(header::WWW_AUTHENTICATE, realm)
}

fn forbidden(principal: Principal, right: Right) -> Problem {
    let (has, needs) = (principal.name(), right.name());
    let detail = format!("this call needs the right `{needs}`; the token is one of role `{has}`");
    Problem::new(StatusCode::FORBIDDEN, "right_missing", detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;

    const NONE: CheckAuth = CheckAuth::None;
    const TOKEN: CheckAuth = CheckAuth::Token;
    const CERTIFICATE: CheckAuth = CheckAuth::Certificate;

    fn headers(line: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = line.split_once(": ") {
            let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a header name");
            headers.insert(name, HeaderValue::from_str(value).expect("a header value"));
        }
        headers
    }

    #[test]
    fn who_may_call_what() {
        let check =
            |auth: CheckAuth, line: &str, certificate: bool, right: Right, expected: &str| {
                let tokens = Tokens::new(auth, "admin-token", Some("caller-token"));
                let certificate = certificate
                    .then(|| CertificateDigest::of(&CertificateDer::from_slice(b"a certificate")));
                let got = match tokens.admit(&headers(line), certificate, right) {
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
        let tokens = Tokens::new(TOKEN, "admin-token", Some("caller-token"));
        assert_eq!(format!("{tokens:?}"), "Tokens { check_auth: Token, .. }");
    }
}
