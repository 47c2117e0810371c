//! How clients are identified, also behind proxies: the settings under `identity`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroUsize;

use http::HeaderName;
use http::header::FORWARDED;
use ipnet::IpNet;
use serde_json::{Value as Json, json};
use tollgate::identity::{
    ApiKeys, ForwardingHeader, IdentityConfig, KeyDigest, KnownKey, Unverified,
};
use tollgate_document::{Node, Problem, Value};

use super::jwt;
use super::layers::{HIDDEN, Layers};
use super::value::{Choice, Setting, at, fields, problem};

const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// The default: a proxy on this machine is trusted: programs that run here could do more harm anyway.
pub(super) fn behind_local_proxies() -> IdentityConfig {
    let mut identity = IdentityConfig::default();
    let loopback = [(IpAddr::from(Ipv4Addr::LOCALHOST), 8), (Ipv6Addr::LOCALHOST.into(), 128)];
    identity.client_ip.trusted_proxies = loopback
        .into_iter()
        .filter_map(|(address, bits)| IpNet::new(address, bits).ok())
        .map(|net| net.trunc())
        .collect();
    identity
}

/// Reads the settings of identity.
pub(super) fn read(layers: &mut Layers<'_>, identity: &mut IdentityConfig) {
    let mut accepted = AcceptedKeys::Known;
    let mut known: Vec<KnownKey> = Vec::new();
    layers.read("identity.api_keys", &mut accepted);
    layers.read("identity.api_key_header", &mut identity.api_key.header);
    layers.read("identity.known_api_keys", &mut known);
    identity.api_key.accept = match accepted {
        AcceptedKeys::Known => ApiKeys::Known(known),
        AcceptedKeys::Any => {
            if !known.is_empty() {
                let message = "any key counts, so these would not be looked at; write \
                               identity.api_keys: known, or leave them out";
                layers.refuse("identity.known_api_keys", message);
            }
            ApiKeys::Any
        }
    };
    let client_ip = &mut identity.client_ip;
    layers.read("identity.trusted_proxies", &mut client_ip.trusted_proxies);
    layers.read("identity.client_ip_header", &mut client_ip.header);
    layers.read("identity.trusted_hops", &mut client_ip.hops);
    layers.read_if("identity.ipv6_prefix", &mut client_ip.ipv6_prefix, |bits| {
        let is_usual = matches!(bits, 48 | 56 | 64 | 128);
        (!is_usual).then(|| format!("expected 48, 56, 64 or 128 bits, found {bits}"))
    });
    layers.read("identity.tenant_header", &mut identity.tenant_header);
    layers.read("identity.tier_header", &mut identity.tier_header);
    layers.read("identity.unverified", &mut identity.unverified);
    identity.jwt = jwt::read(layers);
    if identity.client_ip.trusted_proxies.is_empty() {
        let believed = [
            ("identity.trusted_hops", identity.client_ip.hops.is_some()),
            ("identity.tenant_header", identity.tenant_header.is_some()),
            ("identity.tier_header", identity.tier_header.is_some()),
        ];
        for (name, _) in believed.into_iter().filter(|(_, is_set)| *is_set) {
            let message = "headers are believed from trusted proxies only, and there are none; \
                           name them in identity.trusted_proxies";
            layers.refuse(name, message);
        }
    }
}

/// Which API keys count.
#[derive(Clone, Copy, PartialEq)]
enum AcceptedKeys {
    Known,
    Any,
}

impl Choice for AcceptedKeys {
    const ALL: &'static [(&'static str, Self)] = &[("known", Self::Known), ("any", Self::Any)];
}

impl Choice for Unverified {
    const ALL: &'static [(&'static str, Self)] =
        &[("ignore", Self::Ignore), ("refuse", Self::Refuse)];
}

impl Setting for HeaderName {
    fn expected() -> String {
        "the name of a header like x-api-key".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> Json {
        self.as_str().into()
    }
}

impl Setting for ForwardingHeader {
    fn expected() -> String {
        "x-forwarded-for, forwarded, or the name of a header with one address like x-real-ip"
            .to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        let header: HeaderName = text.parse().ok()?;
        Some(match header {
            FORWARDED => Self::Forwarded,
            header if header == X_FORWARDED_FOR => Self::XForwardedFor,
            header => Self::Single(header),
        })
    }

    fn show(&self) -> Json {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR.into(),
            Self::Forwarded => FORWARDED.as_str().into(),
            Self::Single(header) => header.as_str().into(),
        }
    }
}

impl Setting for NonZeroUsize {
    fn expected() -> String {
        "a whole number from 1".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> Json {
        self.get().into()
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 1 })
    }
}

/// A map with the digest of a key and its owner. Messages never repeat a key.
impl Setting for KnownKey {
    fn expected() -> String {
        "a map like {key: \"sha256:...\", owner: alice, tier: pro, tenant: acme}".to_owned()
    }

    fn parse(_: &str) -> Option<Self> {
        None
    }

    fn read(value: &Value) -> Result<Self, Problem> {
        let Value::Map(entries) = value else {
            return Err(problem(format!("expected {}", Self::expected())));
        };
        let known = fields(entries, "a key", ["key", "owner", "tier", "tenant"])?;
        let [key, owner, tier, tenant] = known;
        let key = key.ok_or_else(|| problem("a known key needs its key, as sha256:..."))?;
        Ok(Self {
            key: digest(key)?,
            owner: word(owner)?,
            tier: word(tier)?,
            tenant: word(tenant)?,
        })
    }

    fn show(&self) -> Json {
        let Self { key: _, owner, tier, tenant } = self;
        json!({ "key": HIDDEN, "owner": owner, "tier": tier, "tenant": tenant })
    }

    fn schema() -> Json {
        let word = <Option<String>>::schema();
        json!({
            "type": "object",
            "properties": {
                "key": { "type": "string", "pattern": "^sha256:[0-9a-fA-F]{64}$" },
                "owner": word, "tier": word, "tenant": word,
            },
            "required": ["key"],
            "additionalProperties": false,
        })
    }
}

fn digest(node: &Node) -> Result<KeyDigest, Problem> {
    let text = node.as_str().filter(|text| text.starts_with("sha256:"));
    let message = "a key is written as its digest, sha256: and 64 hexadecimal digits; \
                   `printf %s KEY | sha256sum` prints them";
    text.and_then(|text| text.parse().ok()).ok_or_else(|| problem(message).at(node.position))
}

fn word(node: Option<&Node>) -> Result<Option<String>, Problem> {
    let Some(node) = node else { return Ok(None) };
    Setting::read(&node.value).map_err(|problem| at(node, problem))
}
