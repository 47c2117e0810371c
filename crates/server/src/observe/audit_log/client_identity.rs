//! The identifiers of a client as they are recorded: redacted, and of bounded size.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tollgate::Attribute;
use tollgate::rules::Identifier;
use tollgate_catalog::digest_of;

use super::decision_event::RequestContext;

/// How many bytes of a client's text are recorded.
const MAX_TEXT_BYTES: usize = 256;
/// How many entries of a descriptor are recorded.
const MAX_ENTRIES: usize = 16;
/// How many bytes the identifiers of a record take together, besides those that name clients.
const MAX_OTHER_BYTES: usize = 1_024;
/// How many digits of a digest are shown.
const SHOWN_OF_DIGEST: usize = 12;
/// What a digest begins with.
const DIGEST_MARK: &str = "sha256:";
/// Parts of names whose values are likely to be secret.
const SECRETS: [&str; 9] = [
    "api_key",
    "api-key",
    "apikey",
    "authorization",
    "cookie",
    "password",
    "secret",
    "session",
    "token",
];

/// The identifiers that name a client, the most specific first.
const NAMES: [(&str, Attribute<'static>); 4] = [
    ("user_id", Attribute::UserId),
    ("api_key", Attribute::ApiKey),
    ("ip", Attribute::Ip),
    ("tenant", Attribute::Tenant),
];

/// All identifiers of a client: its names, what the rule counts by, and the entries of Envoy's
/// descriptor.
pub(super) fn identifiers(
    context: &RequestContext<'_>,
    counted_by: &[Identifier],
) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    let get = |attribute| context.request.get(attribute).filter(|value| !value.is_empty());
    for (name, attribute) in NAMES {
        let Some(value) = get(attribute) else { continue };
        let told = match attribute {
            Attribute::ApiKey => digested(value),
            Attribute::Ip => value.parse().map_or_else(|_| kept(value), spelled),
            _ => kept(value),
        };
        known.insert(name.to_owned(), told);
    }
    for identifier in counted_by {
        let attribute = match identifier {
            Identifier::Header(name) => Attribute::Header(name),
            Identifier::Claim(name) => Attribute::Claim(name),
            Identifier::Attribute(name) => Attribute::Custom(name),
            _ => continue,
        };
        let Some(value) = get(attribute) else { continue };
        let name = identifier.to_string();
        let told = if identifier.is_secret() { digested(value) } else { discreet(&name, value) };
        known.insert(name, told);
    }
    for (name, value) in context.entries.iter().take(MAX_ENTRIES) {
        known.entry(kept(name)).or_insert_with(|| discreet(name, value));
    }
    shorten(&mut known);
    known
}

/// Shortens values until they fit into the bound together, the longest first. Names of clients stay:
/// records are searched by them.
fn shorten(known: &mut BTreeMap<String, String>) {
    let is_other = |name: &str| NAMES.iter().all(|(known, _)| *known != name);
    for most in [64, 16] {
        let others = known.iter().filter(|(name, _)| is_other(name));
        let bytes: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        if bytes <= MAX_OTHER_BYTES {
            return;
        }
        for (_, value) in known.iter_mut().filter(|(name, _)| is_other(name)) {
            value.truncate(value.floor_char_boundary(most));
        }
    }
    let mut bytes = 0;
    known.retain(|name, value| {
        bytes += if is_other(name) { name.len() + value.len() } else { 0 };
        !is_other(name) || bytes <= MAX_OTHER_BYTES
    });
}

/// The one name that a client is searched by: its user, else its API key, its address, its tenant, or
/// all other identifiers.
pub(super) fn client(identifiers: &BTreeMap<String, String>) -> String {
    let named = NAMES.iter().find_map(|(name, _)| identifiers.get(*name));
    named.cloned().unwrap_or_else(|| {
        let all: Vec<&str> = identifiers.values().map(String::as_str).collect();
        if all.is_empty() { "*".to_owned() } else { kept(&all.join(",")) }
    })
}

/// An identifier that a person typed, as it is recorded: an API key by the beginning of its digest, an address in its
/// canonical spelling.
pub(crate) fn recorded(kind: Option<&str>, value: &str) -> String {
    if kind.is_none_or(|kind| kind == "api_key" || is_secret_name(kind)) {
        if let Some(digits) = value.strip_prefix(DIGEST_MARK) {
            let is_digest = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let beginning = digits.get(..SHOWN_OF_DIGEST).filter(|_| is_digest);
            return beginning
                .map_or_else(|| kept(value), |digits| format!("{DIGEST_MARK}{digits}"));
        }
        if kind.is_some() {
            return digested(value);
        }
    }
    let is_address = kind.is_none_or(|kind| kind == "ip");
    let address = value.parse().ok().filter(|_| is_address);
    address.map_or_else(|| kept(value), spelled)
}

/// The part of a text that is recorded.
pub(crate) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

fn kept(text: &str) -> String {
    shortened(text).to_owned()
}

/// The canonical text of an address, by which it is searched.
fn spelled(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

/// A value, redacted if its name says that it is a secret.
fn discreet(name: &str, value: &str) -> String {
    if is_secret_name(name) { digested(value) } else { kept(value) }
}

/// Whether values of this name are likely to be secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// The beginning of the digest of a secret.
fn digested(secret: &str) -> String {
    let digest = digest_of(secret);
    format!("{DIGEST_MARK}{}", digest.get(..SHOWN_OF_DIGEST).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;
    use tollgate::Request;

    fn told(request: &Request<'_>, counted_by: &[Identifier], entries: &[(&str, &str)]) -> String {
        let context = RequestContext { entries, ..RequestContext::of(request) };
        let known = identifiers(&context, counted_by);
        let pairs: Vec<String> = known.iter().map(|(name, it)| format!("{name}={it}")).collect();
        format!("{}: {}", client(&known), pairs.join(" "))
    }

    #[test]
    fn clients_are_recorded_without_their_secrets() {
        let check = |request: Request<'_>, counted_by: &[Identifier], entries, expected: &str| {
            assert_eq!(told(&request, counted_by, entries), expected);
        };
        let any = Request::new;
        check(any(), &[], &[], "*: ");
        check(any().user_id("u"), &[Identifier::UserId], &[], "u: user_id=u");
        check(any().ip("::ffff:10.0.0.1").user_id("u"), &[], &[], "u: ip=10.0.0.1 user_id=u");
        check(any().ip("2001:DB8:0::1"), &[Identifier::Ip], &[], "2001:db8::1: ip=2001:db8::1");
        check(
            any().api_key("k").ip("10.0.0.1"),
            &[],
            &[],
            "sha256:8254c329a928: api_key=sha256:8254c329a928 ip=10.0.0.1",
        );
        let header = Identifier::Header("x-device".into());
        check(
            any().with(Attribute::Header("x-device"), "k"),
            &[header],
            &[],
            "sha256:8254c329a928: header:x-device=sha256:8254c329a928",
        );
        let plan = Identifier::Attribute("plan".into());
        check(
            any().with(Attribute::Custom("plan"), "pro"),
            &[plan],
            &[],
            "pro: attribute:plan=pro",
        );
        let session = Identifier::Attribute("session_id".into());
        check(
            any().with(Attribute::Custom("session_id"), "k"),
            &[session],
            &[],
            "sha256:8254c329a928: attribute:session_id=sha256:8254c329a928",
        );
        check(
            any(),
            &[],
            &[("database", "users"), ("path", "/x")],
            "users,/x: database=users path=/x",
        );
        check(
            any(),
            &[],
            &[("Authorization", "k")],
            "sha256:8254c329a928: Authorization=sha256:8254c329a928",
        );
    }

    #[test]
    fn identifiers_are_searched_as_they_are_recorded() {
        let digest = "sha256:8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a";
        for (kind, value, expected) in [
            (Some("user_id"), "k", "k"),
            (Some("api_key"), "k", "sha256:8254c329a928"),
            (Some("api_key"), digest, "sha256:8254c329a928"),
            (Some("api_key"), "sha256:8254c329a928", "sha256:8254c329a928"),
            (Some("header:x-api-key"), "k", "sha256:8254c329a928"),
            (Some("ip"), "2001:DB8:0::1", "2001:db8::1"),
            (Some("user_id"), "::ffff:10.0.0.1", "::ffff:10.0.0.1"),
            (None, "::ffff:10.0.0.1", "10.0.0.1"),
            (None, digest, "sha256:8254c329a928"),
            (None, "k", "k"),
            (None, "sha256:\u{e9}", "sha256:\u{e9}"),
        ] {
            assert_eq!(recorded(kind, value), expected, "{kind:?} {value}");
        }
    }

    proptest! {
        #[test]
        fn recorded_texts_are_bounded(text in ".{0,600}") {
            let request = Request::new().user_id(&text).ip(&text).tenant(&text);
            let context = RequestContext { entries: &[(&text, &text)], ..RequestContext::of(&request) };
            let known = identifiers(&context, &[]);
            for (name, value) in &known {
                prop_assert!(name.len() <= MAX_TEXT_BYTES && value.len() <= MAX_TEXT_BYTES);
            }
            prop_assert!(client(&known).len() <= MAX_TEXT_BYTES);
        }

        /// A record of long texts used to take 1.8 KB, and a flood of them filled the disk.
        #[test]
        fn a_record_of_long_texts_is_bounded(
            names in prop::collection::vec(("[a-z]{1,400}", ".{0,400}"), 0..20),
        ) {
            let entries: Vec<(&str, &str)> =
                names.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let request = Request::new();
            let context = RequestContext { entries: &entries, ..RequestContext::of(&request) };
            let known = identifiers(&context, &[]);
            let bytes: usize = known.iter().map(|(name, value)| name.len() + value.len()).sum();
            prop_assert!(bytes <= MAX_OTHER_BYTES, "{} bytes", bytes);
        }
    }
}
