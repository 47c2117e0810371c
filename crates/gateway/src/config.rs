//! The configuration of a gateway.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use http::header::AUTHORIZATION;
use ipnet::IpNet;

use crate::routes::Route;
use crate::url::UpstreamUrl;

/// The configuration of a gateway.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// The upstreams of requests without a route. If empty, those get a 404 response.
    pub upstreams: Vec<UpstreamUrl>,
    /// The upstreams of other requests, by host and path.
    pub routes: Vec<Route>,
    /// Which host upstreams see.
    pub host: HostField,
    /// The file with the certificate authorities of upstreams; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// The most requests at a time to one upstream.
    pub requests: usize,
    /// The most of these that one client may have; `None`: [`share_of`] all.
    pub requests_per_client: Option<usize>,
    /// The most upgraded connections at a time.
    pub upgrades: usize,
    /// The most of these that one client may have; `None`: [`share_of`] all.
    pub upgrades_per_client: Option<usize>,
    /// The minimum rate of request bodies, in bytes per second; 0 for none. Not for gRPC.
    pub min_body_rate: u64,
    /// The proxies whose forwarding fields are kept.
    pub trusted_proxies: Vec<IpNet>,
    /// Fields besides those for forwarding that only these proxies may write.
    pub proxy_fields: Vec<HeaderName>,
    /// Fields that identify clients. Spellings of them with underscores, which some servers read as the same field,
    /// are not forwarded.
    pub credential_fields: Vec<HeaderName>,
    /// Whether `X-Original-URL` and `X-Rewrite-URL` of trusted proxies are forwarded. Some services take them for the
    /// path of the request, which differs from the one that rules have matched.
    pub keeps_rewrites: bool,
    /// Whether clients reach the gateway over TLS.
    pub is_encrypted: bool,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            routes: Vec::new(),
            host: HostField::Keep,
            ca: None,
            timeouts: Timeouts::default(),
            requests: 1_024,
            requests_per_client: None,
            upgrades: 1_024,
            upgrades_per_client: None,
            min_body_rate: 256,
            trusted_proxies: Vec::new(),
            proxy_fields: Vec::new(),
            credential_fields: vec![AUTHORIZATION],
            keeps_rewrites: false,
            is_encrypted: false,
        }
    }
}

/// The default share of one client in a pool: a quarter, so that one address cannot take all of it.
#[must_use]
pub const fn share_of(pool: usize) -> usize {
    pool.div_ceil(4)
}

/// Which host upstreams see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostField {
    /// The host of the client's request.
    Keep,
    /// That of the upstream's URL.
    Upstream,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Waiting for a free request slot of an upstream, and connecting to it, TLS included.
    pub connect: Duration,
    /// The response head, after the upstream has received all that the client has sent.
    pub response: Duration,
    /// The next frame of a body, of a request or a response.
    pub body: Duration,
    /// The next request on a connection to an upstream. Shorter than the keep-alive timeout of upstreams, or they
    /// close connections just as they are used.
    pub idle: Duration,
    /// The next bytes of an upgraded connection, in either direction.
    pub upgrade: Duration,
    /// The whole request body, until the upstream begins to respond; zero for none. Not for gRPC.
    pub upload: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            response: Duration::from_mins(1),
            body: Duration::from_mins(1),
            // Many servers have a keep-alive timeout of five seconds.
            idle: Duration::from_secs(4),
            upgrade: Duration::from_hours(1),
            upload: Duration::from_hours(6),
        }
    }
}
