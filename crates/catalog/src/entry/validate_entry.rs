//! Checks the constraints of the tables before an entry is written, for readable errors.

use tollgate_rules::{Problem, parse_time};

use crate::db::database::Value;
use crate::entry::Entry;
use crate::entry::access::{Role, Token};
use crate::entry::kind::Kind;

/// The longest `rule_id`, in bytes.
const MAX_RULE_ID_BYTES: usize = 100;
/// The longest name of anything else, and the longest text that is indexed together with a name: an
/// index of PostgreSQL takes no more.
const MAX_NAME_BYTES: usize = 1_500;
const MAX_TEXT_BYTES: usize = 1_024;
const DIGEST_DIGITS: usize = 64;

/// Why an entry cannot be kept, if it cannot.
pub(crate) fn flaw(entry: &Entry, name: &str, tenant: Option<&str>) -> Option<Problem> {
    let own = match entry {
        Entry::ApiKey(key) => digest_flaw(&key.digest),
        Entry::Token(token) => digest_flaw(&token.digest)
            .or_else(|| tenant_flaw(token))
            .or_else(|| end_flaw(token.expires_at.as_deref())),
        Entry::Ban(ban) if ban.identifier.is_empty() => {
            let problem = Problem::new("identifier", "the ban names no client");
            Some(problem.with_advice("give one value for each identifier of the rule"))
        }
        Entry::Ban(ban) => end_flaw(Some(&ban.expires_at)),
        Entry::Rule(_) if !(1..=MAX_RULE_ID_BYTES).contains(&name.len()) => {
            let message =
                format!("a rule_id has 1 to {MAX_RULE_ID_BYTES} bytes, not {}", name.len());
            Some(Problem::new("rule_id", message).with_advice("write one like `api_default`"))
        }
        _ => None,
    };
    own.or_else(|| name_flaw(entry.kind(), name)).or_else(|| text_flaw(entry, tenant))
}

fn digest_flaw(digest: &str) -> Option<Problem> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_digest = digest.len() == DIGEST_DIGITS && digest.bytes().all(is_digit);
    (!is_digest).then(|| {
        Problem::new("digest", "this is no SHA-256 digest")
            .with_advice(format!("write its {DIGEST_DIGITS} hexadecimal digits, in lower case"))
    })
}

fn tenant_flaw(token: &Token) -> Option<Problem> {
    match (token.role, &token.tenant) {
        (Role::TenantAdmin, None) => Some(
            Problem::new("tenant", "the administrator of a tenant has none")
                .with_advice("name the tenant"),
        ),
        (Role::TenantAdmin, Some(_)) | (_, None) => None,
        (role, Some(_)) => Some(
            Problem::new("tenant", format!("the role {} belongs to no tenant", role.name()))
                .with_advice("leave the tenant out, or use the role tenant-admin"),
        ),
    }
}

fn end_flaw(end: Option<&str>) -> Option<Problem> {
    let end = end.filter(|end| parse_time(end).is_none())?;
    Some(
        Problem::new("expires_at", format!("`{}` is not a time", end.escape_debug()))
            .with_advice("write RFC 3339 with an offset, like 2030-12-01T00:00:00Z"),
    )
}

fn name_flaw(kind: Kind, name: &str) -> Option<Problem> {
    let message = match name.len() {
        0 => format!("the {kind} has no name"),
        1..=MAX_NAME_BYTES if !name.contains('\0') => return None,
        1..=MAX_NAME_BYTES => format!("the name of the {kind} has a zero byte in it"),
        more => format!("the name of the {kind} takes {more} bytes, of at most {MAX_NAME_BYTES}"),
    };
    Some(Problem::new("", message).with_advice("name it by something short that people can read"))
}

/// Checks texts in separate columns. They are indexed, except the reason of a list.
fn text_flaw(entry: &Entry, tenant: Option<&str>) -> Option<Problem> {
    let columns = entry.kind().columns().iter().zip(entry.columns(tenant, None));
    columns.into_iter().find_map(|(column, value)| {
        let Value::Text(Some(text)) = value else { return None };
        if text.contains('\0') {
            let problem = Problem::new(*column, "there is a zero byte in it");
            return Some(problem.with_advice("leave it out"));
        }
        // Identifiers are part of the name.
        let is_bounded = matches!(*column, "tenant" | "tier" | "owner" | "rule_id");
        (is_bounded && text.len() > MAX_TEXT_BYTES).then(|| {
            let message = format!("it takes {} bytes, of at most {MAX_TEXT_BYTES}", text.len());
            Problem::new(*column, message).with_advice("use a shorter one")
        })
    })
}
