//! What can be chosen about a gateway.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use http::header::AUTHORIZATION;
use ipnet::IpNet;

use crate::routes::Route;
use crate::url::UpstreamUrl;

/// Everything that can be chosen about a gateway.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Where requests go that no route is for. If empty, they are answered with 404.
    pub upstreams: Vec<UpstreamUrl>,
    /// Where others go.
    pub routes: Vec<Route>,
    /// Which host upstreams see.
    pub host: HostField,
    /// The file with the authorities that sign certificates of upstreams; without one, those that the
    /// system trusts.
    pub ca: Option<PathBuf>,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// The most requests at a time to one upstream.
    pub requests: usize,
    /// The most of these that one client may have; without a number, [`share_of`] all.
    pub requests_per_client: Option<usize>,
    /// The most connections at a time that were upgraded.
    pub upgrades: usize,
    /// The most of these that one client may have; without a number, [`share_of`] all.
    pub upgrades_per_client: Option<usize>,
    /// The minimum rate of request bodies, in bytes per second; 0 for any. It does not hold for gRPC.
    pub min_body_rate: u64,
    /// The proxies whose forwarding fields are kept.
    pub trusted_proxies: Vec<IpNet>,
    /// Fields besides those for forwarding that nobody but these proxies may write.
    pub proxy_fields: Vec<HeaderName>,
    /// Fields by which clients are known. Spellings of them with underscores, which some servers take for the
    /// same field, are not forwarded.
    pub credential_fields: Vec<HeaderName>,
    /// Whether `X-Original-URL` and `X-Rewrite-URL` of trusted proxies are forwarded. Some services take them for
    /// the path of the request, which is another one than rules have matched.
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

/// What one client may take of a pool unless configured otherwise: a quarter, so that one address cannot
/// take all of it.
#[must_use]
pub const fn share_of(pool: usize) -> usize {
    pool.div_ceil(4)
}

/// Which host upstreams see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostField {
    /// The one that the client asked.
    Keep,
    /// That of the upstream's URL.
    Upstream,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a place among the requests to an upstream, and for a connection to it, TLS included.
    pub connect: Duration,
    /// For the head of an answer, once the upstream has nothing more to wait for.
    pub response: Duration,
    /// For the next piece of a body, of a request as of an answer.
    pub body: Duration,
    /// For the next request on a connection to an upstream. Shorter than upstreams wait, or they close
    /// connections just as they are used.
    pub idle: Duration,
    /// For the next piece of an upgraded connection, in either direction.
    pub upgrade: Duration,
    /// For the whole body of a request, until the upstream begins to answer; zero for any time. It does
    /// not hold for gRPC.
    pub upload: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            response: Duration::from_mins(1),
            body: Duration::from_mins(1),
            // Many servers wait for five seconds.
            idle: Duration::from_secs(4),
            upgrade: Duration::from_hours(1),
            upload: Duration::from_hours(6),
        }
    }
}
