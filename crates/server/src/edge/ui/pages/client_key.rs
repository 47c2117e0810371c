//! A client that is named by an API key. Lists and logs show the beginning of the digest of a key only, so a page may have
//! to do with that.

use tollgate_catalog::digest_of;
use tollgate_dashboard::model::{ClientKey, Identifier};

use super::client::API_KEY;
use crate::edge::ui::visit::Visit;
use crate::policy::source::PolicySource;

/// What a digest begins with.
const MARK: &str = "sha256:";
/// How many digits a digest has.
const DIGITS: usize = 64;
/// The fewest digits that name a digest: as many as logs show.
const MIN_DIGITS: usize = 12;

/// Whether an identifier is an API key by its digest, or the beginning of that.
pub(super) fn is_digest(it: &Identifier) -> bool {
    it.identifier_type == API_KEY && digits_of(&it.value).is_some()
}

/// Whether an identifier is the beginning of a digest, which names no entry of the catalog.
fn is_cut(it: &Identifier) -> bool {
    it.identifier_type == API_KEY && digits_of(&it.value).is_some_and(|it| it.len() < DIGITS)
}

/// The digits of a digest, or of its beginning.
pub(super) fn digits_of(value: &str) -> Option<&str> {
    let digits = value.strip_prefix(MARK)?;
    let is_digest = (MIN_DIGITS..=DIGITS).contains(&digits.len())
        && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_digest.then_some(digits)
}

/// What is known of the API key that names a client. The beginning of a digest becomes the digest, if a known key has it.
pub(super) fn of(visit: &Visit, identifiers: &mut [Identifier]) -> Option<ClientKey> {
    let it = identifiers.iter_mut().find(|it| it.identifier_type == API_KEY)?;
    let is_digest = is_digest(it);
    let beginning = match digits_of(&it.value) {
        Some(digits) => digits.to_owned(),
        None => digest_of(&it.value),
    };
    let known = known(visit, &beginning);
    if let Some((digest, _)) = &known
        && is_cut(it)
    {
        it.value = format!("{MARK}{digest}");
    }
    let (_, key) = known.unwrap_or_default();
    Some(ClientKey { is_digest, is_cut: is_cut(it), ..key })
}

/// The only known key whose digest begins like this, and its digest.
pub(super) fn known(visit: &Visit, beginning: &str) -> Option<(String, ClientKey)> {
    let PolicySource::Catalog(catalog_sync) = &visit.ui.app.policy_source else { return None };
    let view = catalog_sync.view();
    let mut found = view.api_keys().values().filter(|key| key.digest.starts_with(beginning));
    let key = found.next()?;
    if found.next().is_some() {
        return None;
    }
    let about = ClientKey {
        key_id: Some(key.key_id.clone()),
        name: key.name.clone(),
        owner: key.owner.clone(),
        ..ClientKey::default()
    };
    Some((key.digest.clone(), about))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_differs_from_a_key() {
        let whole = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a";
        for (value, expected) in [
            ("sha256:8254c329a928", Some("8254c329a928")),
            (&format!("sha256:{whole}"), Some(whole)),
            (&format!("sha256:{whole}0"), None),
            ("sha256:8254c329a92", None),
            ("sha256:8254C329A928", None),
            ("8254c329a928", None),
        ] {
            assert_eq!(digits_of(value), expected, "{value}");
        }
    }
}
