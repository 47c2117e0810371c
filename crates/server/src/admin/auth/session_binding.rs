//! Binds sessions of the dashboard to the token that they were opened with. A session is valid as long as that token is,
//! and has its permissions.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Context, SHA256};
use tollgate::Timestamp;
use tollgate_catalog::Token;

use super::{Principal, TokenDigest, Tokens};

/// Names a token, and what it was when a session was opened with it. It does not contain the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionBinding {
    /// The id of a token of the catalog; `None` for the admin token of the settings.
    pub(crate) token_id: Option<String>,
    /// A digest of the token's own digest, its role and its tenant.
    pub(crate) digest: TokenDigest,
}

impl Tokens {
    /// What a session of this principal is bound to; `None` for callers that have no token.
    pub(crate) fn bind(&self, principal: &Principal) -> Option<SessionBinding> {
        match principal {
            Principal::Admin => {
                let digest = digest_of_parts(&[self.admin.as_ref()?]);
                Some(SessionBinding { token_id: None, digest })
            }
            Principal::Token(token) => {
                let token_id = Some(token.token_id.clone());
                Some(SessionBinding { token_id, digest: digest_of_token(token) })
            }
            Principal::Anonymous | Principal::Caller | Principal::Certified(_) => None,
        }
    }

    /// The principal of a session; `None` if its token was revoked or changed since, or has expired.
    pub(crate) fn bound(&self, binding: &SessionBinding, now: Timestamp) -> Option<Principal> {
        let is_bound =
            |digest: TokenDigest| verify_slices_are_equal(&digest, &binding.digest).is_ok();
        let Some(token_id) = &binding.token_id else {
            let digest = digest_of_parts(&[self.admin.as_ref()?]);
            return is_bound(digest).then_some(Principal::Admin);
        };
        let token = self.catalog.load().get(token_id).cloned()?;
        if !is_bound(digest_of_token(&token)) || token.is_over(now) {
            return None;
        }
        self.note_use(token_id);
        Some(Principal::Token(Arc::clone(&token)))
    }
}

fn digest_of_token(token: &Token) -> TokenDigest {
    let tenant = token.tenant.as_deref().unwrap_or_default();
    digest_of_parts(&[token.digest.as_bytes(), token.role.name().as_bytes(), tenant.as_bytes()])
}

/// The digest of several parts, each with its length, so that no two lists of parts have the same.
fn digest_of_parts(parts: &[&[u8]]) -> TokenDigest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut bytes = TokenDigest::default();
    bytes.copy_from_slice(context.finish().as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::CheckAccess;
    use super::*;
    use tollgate_catalog::Role;

    const NOW: Timestamp = Timestamp::from_secs(10);

    #[test]
    fn a_session_ends_with_its_token() {
        let (token, _) = Token::create(Role::Viewer).expect("random numbers");
        let tokens = Tokens::new(CheckAccess::None, None, None);
        let set = |token: &Token| {
            tokens.set_catalog(&[(token.token_id.clone(), token.clone())].into());
        };
        let principal = Principal::Token(Arc::new(token.clone()));
        let binding = tokens.bind(&principal).expect("a binding");
        assert_eq!(tokens.bound(&binding, NOW), None, "unknown yet");
        set(&token);
        assert_eq!(tokens.bound(&binding, NOW), Some(principal));
        for changed in [
            Token { role: Role::Admin, ..token.clone() },
            Token { tenant: Some("acme".to_owned()), ..token.clone() },
            Token { expires_at: Some("1970-01-01T00:00:10Z".to_owned()), ..token.clone() },
            Token { digest: "0".repeat(64), ..token.clone() },
        ] {
            set(&changed);
            assert_eq!(tokens.bound(&binding, NOW), None, "{changed:?}");
        }
        let renamed = Token { name: Some("night shift".to_owned()), ..token };
        set(&renamed);
        assert_eq!(tokens.bound(&binding, NOW), Some(Principal::Token(Arc::new(renamed))));
    }

    #[test]
    fn another_admin_token_in_the_settings_ends_sessions() {
        let tokens = |admin| Tokens::new(CheckAccess::None, admin, Some("caller-token"));
        let binding = tokens(Some("one")).bind(&Principal::Admin).expect("a binding");
        assert_eq!(tokens(Some("one")).bound(&binding, NOW), Some(Principal::Admin));
        assert_eq!(tokens(Some("two")).bound(&binding, NOW), None);
        assert_eq!(tokens(None).bound(&binding, NOW), None);
        assert_eq!(tokens(Some("one")).bind(&Principal::Caller), None);
        assert_eq!(tokens(Some("one")).bind(&Principal::Anonymous), None);
    }
}
