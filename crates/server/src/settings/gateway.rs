//! Settings of the gateway: `upstream`, `routes` and those under `gateway`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use http::HeaderName;
use http::header::AUTHORIZATION;
use serde_json::{Value as Json, json};
use tollgate::identity::{ForwardingHeader, IdentityConfig};
use tollgate_document::{Node, Problem, Value, quote};
use tollgate_gateway::{
    GatewayConfig, HostField, HostPattern, PathPattern, Route, Timeouts, UpstreamUrl, share_of,
};

use super::Settings;
use super::layers::Layers;
use super::value::{ByteSize, Choice, Setting, at, fields, problem, unexpected};

/// A port where requests are checked and forwarded.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// Where it listens; port 0 takes any free one.
    pub address: SocketAddr,
    /// Where requests go.
    pub config: GatewayConfig,
}

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8000);

/// Reads the settings of the gateway. There is one if there is an upstream.
pub(super) fn read(layers: &mut Layers<'_>, settings: &mut Settings) {
    let mut address = LOOPBACK;
    let mut config = GatewayConfig {
        trusted_proxies: settings.identity.client_ip.trusted_proxies.clone(),
        proxy_fields: proxy_fields(&settings.identity),
        credential_fields: vec![AUTHORIZATION, settings.identity.api_key.header.clone()],
        is_encrypted: settings.tls.is_some(),
        ..GatewayConfig::default()
    };
    let is_mentioned = layers.mentions("gateway.");
    layers.read("upstream", &mut config.upstreams);
    layers.read("routes", &mut config.routes);
    layers.read("gateway.address", &mut address);
    layers.read("gateway.host", &mut config.host);
    layers.read("gateway.ca", &mut config.ca);
    let mut rewrites = RewriteHeaders::Drop;
    layers.read("gateway.rewrite_headers", &mut rewrites);
    config.keeps_rewrites = rewrites == RewriteHeaders::Trusted;
    let Timeouts { connect, response, body, idle, upgrade, upload } = &mut config.timeouts;
    let times = Duration::from_millis(10)..=Duration::from_hours(24);
    layers.read_within("gateway.connect_timeout", connect, times.clone());
    layers.read_within("gateway.response_timeout", response, times.clone());
    layers.read_within("gateway.body_timeout", body, times.clone());
    layers.read_within("gateway.idle_timeout", idle, times.clone());
    layers.read_within("gateway.upgrade_timeout", upgrade, times);
    let totals = Duration::ZERO..=Duration::from_hours(24 * 7);
    layers.read_within("gateway.upload_timeout", upload, totals);
    let mut min_rate = ByteSize::new(config.min_body_rate);
    let rates = ByteSize::new(0)..=ByteSize::mebibytes(1_024);
    layers.read_within("gateway.min_body_rate", &mut min_rate, rates);
    config.min_body_rate = min_rate.bytes();
    layers.read_within("gateway.requests", &mut config.requests, 1..=1_000_000);
    layers.read_within("gateway.upgrades", &mut config.upgrades, 0..=1_000_000);
    let pools = [
        ("gateway.requests_per_client", &mut config.requests_per_client, config.requests),
        ("gateway.upgrades_per_client", &mut config.upgrades_per_client, config.upgrades),
    ];
    for (name, share, pool) in pools {
        layers.read_if(name, share, |share| {
            let is_possible = share.is_none_or(|share| (1..=1_000_000).contains(&share));
            (!is_possible).then(|| "expected 1 to 1000000, or nothing for a quarter".to_owned())
        });
        layers.resolved(name, share.unwrap_or(share_of(pool)).show());
    }
    if config.upstreams.is_empty() && config.routes.is_empty() {
        let is_chosen = layers.origin("gateway.address") != super::Origin::Default;
        if (is_mentioned || is_chosen)
            && !layers.has_refused("upstream")
            && !layers.has_refused("routes")
        {
            let message = "there is nowhere to forward to; name a URL in upstream, or routes";
            layers.refuse("gateway.address", message);
        }
        return;
    }
    let others =
        [("http", Some(settings.http)), ("admin", settings.admin), ("grpc", settings.grpc.tcp())];
    let taken = others.iter().find(|(_, other)| address.port() != 0 && *other == Some(address));
    if let Some((name, _)) = taken {
        layers.refuse(
            "gateway.address",
            format!("this is where {name} listens; choose another port"),
        );
    }
    settings.gateway = Some(GatewaySettings { address, config });
}

/// The header fields that trusted proxies may set, besides those that every proxy sets.
fn proxy_fields(identity: &IdentityConfig) -> Vec<HeaderName> {
    let client = match &identity.client_ip.header {
        ForwardingHeader::Single(name) => Some(name),
        ForwardingHeader::XForwardedFor | ForwardingHeader::Forwarded => None,
    };
    let known = [client, identity.tenant_header.as_ref(), identity.tier_header.as_ref()];
    known.into_iter().flatten().cloned().collect()
}

/// Whose `X-Original-URL` and `X-Rewrite-URL` are forwarded.
#[derive(Clone, Copy, PartialEq)]
enum RewriteHeaders {
    Drop,
    Trusted,
}

impl Choice for RewriteHeaders {
    const ALL: &'static [(&'static str, Self)] =
        &[("drop", Self::Drop), ("trusted", Self::Trusted)];
}

impl Choice for HostField {
    const ALL: &'static [(&'static str, Self)] =
        &[("keep", Self::Keep), ("upstream", Self::Upstream)];
}

impl Setting for UpstreamUrl {
    fn expected() -> String {
        "a URL without a path, like http://10.0.0.1:3000, https://backend.example or h2c://10.0.0.1:50051"
            .to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> Json {
        self.to_string().into()
    }
}

/// A map with a path, upstreams, and maybe a host.
impl Setting for Route {
    fn expected() -> String {
        "a map like {host: api.example.com, path: /v1/*, upstream: [http://10.0.0.1:80]}".to_owned()
    }

    fn parse(_: &str) -> Option<Self> {
        None
    }

    fn read(value: &Value) -> Result<Self, Problem> {
        let Value::Map(entries) = value else {
            return Err(unexpected(&Self::expected(), value));
        };
        let [host, path, upstream] = fields(entries, "a route", ["host", "path", "upstream"])?;
        let host = host.map(pattern::<HostPattern>).transpose()?;
        let path = path.map(pattern::<PathPattern>).transpose()?;
        let upstreams = upstream
            .map(|node| <Vec<UpstreamUrl>>::read(&node.value).map_err(|problem| at(node, problem)));
        let upstreams = upstreams.transpose()?.unwrap_or_default();
        let path = path.ok_or_else(|| problem("a route needs a path; /* is every path"))?;
        if upstreams.is_empty() {
            return Err(problem("a route needs an upstream, like upstream: http://10.0.0.1:80"));
        }
        Ok(Self { host, path, upstreams })
    }

    fn show(&self) -> Json {
        let host = self.host.as_ref().map(ToString::to_string);
        json!({ "host": host, "path": self.path.to_string(), "upstream": self.upstreams.show() })
    }

    fn schema() -> Json {
        json!({
            "type": "object",
            "properties": {
                "host": { "type": "string" },
                "path": { "type": "string" },
                "upstream": <Vec<UpstreamUrl>>::schema(),
            },
            "required": ["path", "upstream"],
            "additionalProperties": false,
        })
    }
}

fn pattern<T: std::str::FromStr<Err = String>>(node: &Node) -> Result<T, Problem> {
    let text = node.value.scalar().ok_or_else(|| "expected a text".to_owned());
    let parsed = text.and_then(|text| {
        text.parse().map_err(|expected| format!("{expected}, found {}", quote(text)))
    });
    parsed.map_err(|message| problem(message).at(node.position))
}
