//! Identifies the client of a request, and presents the request to rules.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ::http::request::Parts;
use ::http::uri::Authority;
use tollgate_core::Timestamp;
use tollgate_rules::{Attribute, Attributes};

use crate::identity::{CredentialProblem, Extractor, HttpRequest, Identity, Secret};

/// Attributes that the program knows beyond HTTP.
type OwnAttributes = Box<dyn Attributes + Send + Sync>;
/// A function that the program gives, called for each request.
type PerRequest<T> = Option<Arc<dyn Fn(&Parts) -> T + Send + Sync>>;

/// How to identify the client of a request.
#[derive(Clone, Default)]
pub(super) struct Callers {
    /// The peer address of the connection.
    pub(super) address: PerRequest<Option<IpAddr>>,
    pub(super) extractor: Option<Arc<Extractor>>,
    pub(super) own: PerRequest<OwnAttributes>,
}

/// The client of a request.
pub(super) struct LayerClient {
    identity: Identity,
    own: Option<OwnAttributes>,
}

impl Callers {
    pub(super) async fn identify(&self, parts: &Parts, now: Timestamp) -> LayerClient {
        let peer = self.address.as_ref().and_then(|address| address(parts));
        let mut identity = match &self.extractor {
            Some(extractor) => {
                // An unknown peer is never a trusted proxy.
                let peer = peer.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
                extractor.identify(&parts.headers, peer, now).await
            }
            None => Identity {
                ip: peer.map(|peer| peer.to_canonical().to_string()).unwrap_or_default(),
                ..Identity::default()
            },
        };
        if peer.is_none() {
            identity.ip.clear();
        }
        LayerClient { identity, own: self.own.as_ref().map(|own| own(parts)) }
    }
}

impl LayerClient {
    /// Why the request has to be refused for its credentials.
    pub(super) const fn credential_problem(&self) -> Option<CredentialProblem> {
        self.identity.credential_problem
    }

    /// The identity without the program's attributes.
    pub(super) const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The address of the client, if it is known.
    pub(super) fn address(&self, parts: &Parts, path: &str) -> Option<IpAddr> {
        self.asking(parts, path).get(Attribute::Ip)?.parse().ok()
    }

    /// The request as rules see it, with the path that they match.
    pub(super) fn asking<'a>(&'a self, parts: &'a Parts, path: &'a str) -> LayerRequest<'a> {
        let request = HttpRequest {
            identity: &self.identity,
            method: parts.method.as_str(),
            // HTTP/2 has no Host header.
            host: parts.uri.authority().map(Authority::as_str),
            path,
            headers: &parts.headers,
            cost: 1,
        };
        LayerRequest { request, own: self.own.as_deref() }
    }
}

/// A request: the program's attributes first, then those of HTTP.
pub(super) struct LayerRequest<'a> {
    request: HttpRequest<'a>,
    own: Option<&'a (dyn Attributes + Send + Sync)>,
}

impl Attributes for LayerRequest<'_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        let own = self.own.and_then(|own| own.get(attribute)).filter(|value| !value.is_empty());
        own.or_else(|| self.request.get(attribute))
    }

    fn cost(&self) -> u64 {
        self.own.map_or(self.request.cost, Attributes::cost)
    }
}

/// An identity has attributes of the client only.
impl Attributes for Identity {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        match attribute {
            Attribute::UserId => self.user_id.as_deref(),
            Attribute::ApiKey => self.api_key.as_ref().map(Secret::expose),
            Attribute::Ip => Some(&self.ip),
            Attribute::Tenant => self.tenant.as_deref(),
            Attribute::Tier => self.tier.as_deref(),
            Attribute::Claim(name) => self.claims.get(name),
            Attribute::Host
            | Attribute::Path
            | Attribute::Method
            | Attribute::Header(_)
            | Attribute::Custom(_) => None,
        }
    }
}
