//! The client that a decision is about, in words that can be kept: no secrets, and no more than so many bytes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tollgate::Attribute;
use tollgate::rules::Identifier;
use tollgate_catalog::digest_of;

use super::note::RequestContext;

/// The longest text that is kept of what a client sent.
const LONGEST: usize = 256;
/// The most entries of a descriptor that are kept.
const MOST_ENTRIES: usize = 16;
/// The most bytes that identifiers of a record take together, besides those that name clients.
const MAX_OTHER_BYTES: usize = 1_024;
/// How much of a digest tells secrets apart.
const SHOWN_OF_DIGEST: usize = 12;
/// Names of what is likely to be a secret.
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

/// What names a client, the most telling first.
const NAMES: [(&str, Attribute<'static>); 4] = [
    ("user_id", Attribute::UserId),
    ("api_key", Attribute::ApiKey),
    ("ip", Attribute::Ip),
    ("tenant", Attribute::Tenant),
];

/// Everything that is known about a client: its names, what the rule counted it by, and what Envoy
/// said about it.
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
    for (name, value) in context.entries.iter().take(MOST_ENTRIES) {
        known.entry(kept(name)).or_insert_with(|| discreet(name, value));
    }
    shorten(&mut known);
    known
}

/// Cuts the longest values first, so that they take no more than they may together. Names of clients stay as
/// they are: records are found by them.
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

/// The one name that a client is found by: its user, else its API key, its address, its tenant, or
/// whatever else is known.
pub(super) fn client(identifiers: &BTreeMap<String, String>) -> String {
    let named = NAMES.iter().find_map(|(name, _)| identifiers.get(*name));
    named.cloned().unwrap_or_else(|| {
        let all: Vec<&str> = identifiers.values().map(String::as_str).collect();
        if all.is_empty() { "*".to_owned() } else { kept(&all.join(",")) }
    })
}

/// The beginning of a text, as far as it is kept.
pub(crate) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

fn kept(text: &str) -> String {
    shortened(text).to_owned()
}

/// An address has many spellings, and is found by one.
fn spelled(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

/// A value, unless its name says that it is a secret.
fn discreet(name: &str, value: &str) -> String {
    let name = name.to_ascii_lowercase();
    if SECRETS.iter().any(|secret| name.contains(secret)) { digested(value) } else { kept(value) }
}

/// What tells a secret from others, and nothing else of it.
fn digested(secret: &str) -> String {
    let digest = digest_of(secret);
    format!("sha256:{}", digest.get(..SHOWN_OF_DIGEST).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;
    use tollgate::Request;

    fn told(request: &Request<'_>, counted_by: &[Identifier], entries: &[(&str, &str)]) -> String {
        let context = RequestContext { request, endpoint: None, method: None, entries };
        let known = identifiers(&context, counted_by);
        let pairs: Vec<String> = known.iter().map(|(name, it)| format!("{name}={it}")).collect();
        format!("{}: {}", client(&known), pairs.join(" "))
    }

    #[test]
    fn clients_are_told_without_their_secrets() {
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

    proptest! {
        #[test]
        fn whatever_is_sent_stays_short(text in ".{0,600}") {
            let request = Request::new().user_id(&text).ip(&text).tenant(&text);
            let context = RequestContext { request: &request, endpoint: None, method: None, entries: &[(&text, &text)] };
            let known = identifiers(&context, &[]);
            for (name, value) in &known {
                prop_assert!(name.len() <= LONGEST && value.len() <= LONGEST);
            }
            prop_assert!(client(&known).len() <= LONGEST);
        }

        /// A record of long texts took 1.8 KB, and a flood of them the whole disk.
        #[test]
        fn a_record_of_long_texts_stays_short(
            names in prop::collection::vec(("[a-z]{1,400}", ".{0,400}"), 0..20),
        ) {
            let entries: Vec<(&str, &str)> =
                names.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let request = Request::new();
            let context = RequestContext { request: &request, endpoint: None, method: None, entries: &entries };
            let known = identifiers(&context, &[]);
            let bytes: usize = known.iter().map(|(name, value)| name.len() + value.len()).sum();
            prop_assert!(bytes <= MAX_OTHER_BYTES, "{} bytes", bytes);
        }
    }
}
