//! The service: sends a request to its upstream, and returns the response.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderValue, UPGRADE};
use http::request::Parts;
use http::uri::Authority;
use http::{Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::upgrade::OnUpgrade;
use tower_service::Service;
use tracing::debug;

use crate::BodyError;
use crate::config::{GatewayConfig, HostField, Timeouts};
use crate::connect::{TlsRoots, TlsRootsError};
use crate::counts::GatewayCounts;
use crate::exchange::{Exchange, ExchangeError, Exchanged};
use crate::failure::ForwardError;
use crate::fields::strip_response;
use crate::forwarded::{ForwardedHop, is_trusted};
use crate::guard::FieldGuard;
use crate::request_body::RequestBody;
use crate::request_head::RequestHead;
use crate::response_body::{Held, ResponseBody};
use crate::routes::Routes;
use crate::tunnel::{TunnelPermit, Tunnels};
use crate::upload_timer::UploadLimits;
use crate::upstream::{RequestPlace, Upstream, Upstreams};
use crate::url::{UpstreamProtocol, UpstreamUrl};

/// The peer address of the connection that a request came over. The listener puts it into the extensions of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// The client of a request, as forwarded by trusted proxies. Its requests share what one client may take. Without it
/// the [`ClientAddress`] is the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginalClient(pub IpAddr);

/// An extension of responses that an upstream has sent: the request was sent, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromUpstream;

/// An extension of requests whose `Host` is not the client's, but that of the upstream.
#[derive(Clone, Copy, Debug)]
struct CompletedHost;

/// The response.
pub type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

/// Forwards requests to upstreams. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Forwarder(Arc<ForwarderState>);

#[derive(Debug)]
struct ForwarderState {
    routes: Routes,
    keeps_host: bool,
    timeouts: Timeouts,
    upload_limits: UploadLimits,
    trusted_proxies: Vec<ipnet::IpNet>,
    guard: Arc<FieldGuard>,
    scheme: &'static str,
    tunnels: Tunnels,
    counts: Arc<GatewayCounts>,
}

impl Forwarder {
    /// Reads the certificate authorities, if an upstream speaks TLS. Connects to no upstream yet.
    ///
    /// # Errors
    /// The authorities cannot be read.
    pub fn new(config: &GatewayConfig, counts: Arc<GatewayCounts>) -> Result<Self, TlsRootsError> {
        let routed = config.routes.iter().flat_map(|route| &route.upstreams);
        let speaks_tls = config
            .upstreams
            .iter()
            .chain(routed)
            .any(|url| url.protocol() == UpstreamProtocol::Tls);
        let trust = speaks_tls.then(|| TlsRoots::load(config.ca.as_deref())).transpose()?;
        // An upstream of several routes has one pool.
        let mut known: HashMap<UpstreamUrl, Arc<Upstream>> = HashMap::new();
        let mut upstreams = |urls: &[UpstreamUrl]| {
            let upstream = |url: &UpstreamUrl| {
                let new = || Upstream::new(url.clone(), trust.clone(), config);
                Arc::clone(known.entry(url.clone()).or_insert_with(new))
            };
            Upstreams::new(urls.iter().map(upstream).collect())
        };
        let routes = config
            .routes
            .iter()
            .map(|route| (route.host.clone(), route.path.clone(), upstreams(&route.upstreams)));
        let routes = routes.collect();
        let rest = (!config.upstreams.is_empty()).then(|| upstreams(&config.upstreams));
        Ok(Self(Arc::new(ForwarderState {
            routes: Routes::new(routes, rest),
            keeps_host: config.host == HostField::Keep,
            timeouts: config.timeouts,
            upload_limits: UploadLimits {
                pause: config.timeouts.body,
                min_rate: config.min_body_rate,
                total: config.timeouts.upload,
            },
            trusted_proxies: config.trusted_proxies.clone(),
            guard: Arc::new(FieldGuard::new(config)),
            scheme: if config.is_encrypted { "https" } else { "http" },
            tunnels: Tunnels::new(config, Arc::clone(&counts)),
            counts,
        })))
    }

    /// Adds the host of its upstream to a request without one. Call it before the check: rules and routes by host
    /// then match the host that is sent to the upstream. If the upstreams of a route have different hosts, all of
    /// them receive that of the first.
    pub fn complete_host(&self, parts: &mut Parts) {
        let has_host = parts.headers.get(HOST).is_some_and(|host| !host.is_empty());
        if has_host || parts.uri.authority().is_some() {
            return;
        }
        // A request without a route is refused when it is forwarded.
        let Ok(upstreams) = self.0.routes.find("", parts.uri.path()) else { return };
        let host = upstreams.first().map(|upstream| upstream.url.authority().as_str());
        if let Some(host) = host.and_then(|host| HeaderValue::from_str(host).ok()) {
            parts.headers.insert(HOST, host);
            parts.extensions.insert(CompletedHost);
        }
    }

    /// All upgraded connections.
    #[must_use]
    pub fn tunnels(&self) -> &Tunnels {
        &self.0.tunnels
    }
}

impl<B> Service<Request<B>> for Forwarder
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Send + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        let shared = Arc::clone(&self.0);
        let (parts, body) = request.into_parts();
        let upload = RequestBody::new(body, shared.upload_limits.of(&parts), &shared.guard);
        // Read here: the future would hold the parts of the request beside the request itself.
        let read = shared.read(parts, upload);
        Box::pin(async move {
            let forwarded = match read {
                Ok(read) => shared.forward(read).await,
                Err(failure) => Err(failure),
            };
            Ok(forwarded.unwrap_or_else(|failure| {
                shared.counts.count_failure(failure);
                failure.response().map(ResponseBody::own)
            }))
        })
    }
}

/// A request to be forwarded.
struct ReadRequest {
    request: Box<Request<RequestBody>>,
    asked: RequestHead,
    /// Whose share of the upstream it takes.
    client: IpAddr,
    upgrade: Option<Upgrade>,
    upstreams: Arc<Upstreams>,
}

/// What a request that upgrades to another protocol needs.
struct Upgrade {
    client: OnUpgrade,
    place: TunnelPermit,
}

impl ForwarderState {
    /// Reads a request, and makes of it what the upstream gets.
    fn read(&self, mut parts: Parts, upload: RequestBody) -> Result<ReadRequest, ForwardError> {
        let mut asked = RequestHead::take(&mut parts)?;
        asked.awaits_continue &= !upload.is_empty();
        let upstreams = Arc::clone(self.routes.find(asked.host(), asked.path())?);
        let peer = address_of(&parts);
        let client = parts.extensions.get::<OriginalClient>().map_or(peer, |client| client.0);
        self.tell_step(&mut parts, &asked, peer)?;
        let upgrading = parts.extensions.remove::<OnUpgrade>();
        let upgrade = match upgrading.filter(|_| asked.upgrade.is_some()) {
            None => {
                asked.upgrade = None;
                None
            }
            Some(upgrading) => {
                let place = self.tunnels.take(client)?;
                Some(Upgrade { client: upgrading, place })
            }
        };
        parts.extensions.clear();
        let request = Box::new(Request::from_parts(parts, upload));
        Ok(ReadRequest { request, asked, client, upgrade, upstreams })
    }

    async fn forward(&self, read: ReadRequest) -> Result<Response<ResponseBody>, ForwardError> {
        let ReadRequest { mut request, mut asked, client, mut upgrade, upstreams } = read;
        let mut last = ForwardError::NoUpstream;
        let mut turns = upstreams.turns(client);
        while let Some((upstream, place)) = turns.next().await? {
            if asked.upgrade.is_some() && upstream.url.protocol() == UpstreamProtocol::PlainHttp2 {
                // HTTP/2 cannot be upgraded: the request is sent without the upgrade.
                (asked.upgrade, upgrade) = (None, None);
            }
            let exchange = Exchange {
                upstream,
                asked: &asked,
                keeps_host: self.keeps_host,
                response_timeout: self.timeouts.response,
                counts: &self.counts,
            };
            match exchange.run(request).await {
                Ok(answered) => {
                    let is_change = answered.response.status() == StatusCode::SWITCHING_PROTOCOLS;
                    return match upgrade.filter(|_| is_change) {
                        Some(upgrade) => self.change(answered.response, upgrade),
                        // The client did not request an upgrade.
                        None if is_change => Err(ForwardError::Broken),
                        None => Ok(self.pass_on(answered, upstream, place)),
                    };
                }
                Err(ExchangeError::NotSent(unsent, failure)) => {
                    debug!(upstream = %upstream.url, failure = failure.name(), "not sent");
                    request = unsent;
                    if failure != ForwardError::NoUpstream {
                        last = failure;
                    }
                }
                Err(ExchangeError::Failed(failure)) => return Err(failure),
            }
        }
        Err(last)
    }

    /// Adds the forwarding fields for the upstream.
    fn tell_step(
        &self,
        parts: &mut Parts,
        asked: &RequestHead,
        client: IpAddr,
    ) -> Result<(), ForwardError> {
        let is_completed = parts.extensions.get::<CompletedHost>().is_some();
        let host = asked.authority.as_ref().filter(|_| !is_completed);
        let step = ForwardedHop {
            client,
            is_trusted: is_trusted(&self.trusted_proxies, client),
            guard: &self.guard,
            scheme: self.scheme,
            host: host.map(Authority::as_str),
        };
        step.tell(&mut parts.headers)
    }

    fn pass_on(
        &self,
        answered: Exchanged,
        upstream: &Upstream,
        place: RequestPlace,
    ) -> Response<ResponseBody> {
        let Exchanged { response, sender, stream, upload } = answered;
        if let Some(upload) = &upload {
            upload.answer_begins();
        }
        let held = Held::new(sender, stream, &upstream.pool, upload, place);
        let counts = Arc::clone(&self.counts);
        let mut response =
            response.map(|body| ResponseBody::new(body, held, self.timeouts.body, counts));
        *response.version_mut() = Version::HTTP_11;
        strip_response(response.headers_mut());
        response.extensions_mut().insert(FromUpstream);
        response
    }

    /// Joins both connections.
    fn change(
        &self,
        mut response: Response<hyper::body::Incoming>,
        Upgrade { client, place }: Upgrade,
    ) -> Result<Response<ResponseBody>, ForwardError> {
        let protocol = response.headers().get(UPGRADE).cloned().ok_or(ForwardError::Broken)?;
        self.tunnels.open(client, hyper::upgrade::on(&mut response), place);
        let mut response = response.map(|_| ResponseBody::own(Bytes::new()));
        *response.version_mut() = Version::HTTP_11;
        let fields = response.headers_mut();
        strip_response(fields);
        fields.insert(UPGRADE, protocol);
        fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        response.extensions_mut().insert(FromUpstream);
        Ok(response)
    }
}

/// The peer of the connection; an unknown one is not a trusted proxy.
fn address_of(parts: &Parts) -> IpAddr {
    let address = parts.extensions.get::<ClientAddress>();
    address.map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.0)
}
