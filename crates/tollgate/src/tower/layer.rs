//! The layer: a limiter and its options, to wrap services.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ::http::Response;
use ::http::request::Parts;
use bytes::Bytes;
use tollgate_rules::Attributes;
use tollgate_store::MemoryStore;
use tower_layer::Layer;

use super::gate::Gate;
use super::observed::Observed;
use super::service::RateLimit;
use crate::clock::SystemClock;
use crate::decision::Decision;
use crate::http::{HeaderFamilies, PathMatching, RefusalFormat};
use crate::identity::Extractor;
use crate::limiter::Limiter;

/// Wraps services with a limiter. All services behind one layer, or a clone of it, share its counters and its places
/// for delayed requests.
pub struct RateLimitLayer<S = MemoryStore, C = SystemClock> {
    gate: Arc<Gate<S, C>>,
}

impl<S, C> RateLimitLayer<S, C> {
    /// A layer that reads from HTTP: host, path, method, header fields. Set the client with
    /// [`client_address`](Self::client_address), [`identify`](Self::identify) or
    /// [`identify_with`](Self::identify_with); until then rules by address, user or API key find no identifier, and
    /// their `on_missing` applies.
    #[must_use]
    pub fn new(limiter: impl Into<Arc<Limiter<S, C>>>) -> Self {
        Self { gate: Arc::new(Gate::new(limiter.into())) }
    }

    /// Where the address at the other end of the connection is found. Servers put it into the
    /// extensions of a request, each in its own way:
    ///
    /// | server | `parts.extensions.get::<...>()` | needs |
    /// |---|---|---|
    /// | axum | `axum::extract::ConnectInfo<SocketAddr>` | `into_make_service_with_connect_info` |
    /// | tonic | `tonic::transport::server::TcpConnectInfo` | |
    ///
    /// Behind a proxy this is the address of the proxy: [`identify`](Self::identify) finds that of the
    /// client.
    #[must_use]
    pub fn client_address(
        self,
        find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.with(|gate| gate.callers.address = Some(Arc::new(find)))
    }

    /// Identifies clients by API key, signed token, or address behind trusted proxies. A request with ambiguous
    /// credentials gets a 400 response; with [`Unverified::Refuse`](crate::identity::Unverified::Refuse), one whose
    /// credentials cannot be verified gets 401.
    ///
    /// Needs [`client_address`](Self::client_address), without which no proxy can be trusted.
    #[must_use]
    pub fn identify(self, extractor: impl Into<Arc<Extractor>>) -> Self {
        self.with(|gate| gate.callers.extractor = Some(extractor.into()))
    }

    /// Sets attributes that the program knows about a request: an [`Identity`](crate::identity::Identity), for
    /// example, or custom attributes and a cost. They take precedence over those of HTTP.
    ///
    /// Return only what was verified: a user id that clients may choose is a fresh quota for each choice.
    #[must_use]
    pub fn identify_with<A: Attributes + Send + Sync + 'static>(
        self,
        know: impl Fn(&Parts) -> A + Send + Sync + 'static,
    ) -> Self {
        self.with(|gate| gate.callers.own = Some(Arc::new(move |parts| Box::new(know(parts)))))
    }

    /// Sets how paths are read before rules match them. The default is [`PathMatching::Lenient`]: the service behind
    /// this layer routes by the same path. With [`PathMatching::Strict`], a path that servers read differently gets a
    /// 400 response: for services that decode paths, or forward them.
    #[must_use]
    pub fn paths(self, paths: PathMatching) -> Self {
        self.with(|gate| gate.paths = paths)
    }

    /// Sets the header fields of responses. The default is [`HeaderFamilies::default`].
    #[must_use]
    pub fn headers(self, families: HeaderFamilies) -> Self {
        self.with(|gate| gate.answers.families = families)
    }

    /// Sets the status and body of refusals by a limit or a ban. gRPC calls are refused with a status of gRPC.
    #[must_use]
    pub fn refusal_format(self, format: RefusalFormat) -> Self {
        self.with(|gate| gate.answers.format = format)
    }

    /// Sets a custom response to refused requests, gRPC calls included. The header fields of the limits are added to
    /// it.
    #[must_use]
    pub fn refused_with<B: Into<Bytes>>(
        self,
        answer: impl Fn(&Decision, &Parts) -> Response<B> + Send + Sync + 'static,
    ) -> Self {
        let answer = move |decision: &Decision, parts: &Parts| answer(decision, parts).map(B::into);
        self.with(|gate| gate.answers.own = Some(Arc::new(answer)))
    }

    /// Sets how many requests may be delayed at the same time. One more is refused and not charged; its `Retry-After`
    /// is its delay. The default is 10,000.
    #[must_use]
    pub fn max_delayed(self, requests: usize) -> Self {
        self.with(|gate| gate.places = gate.places.resized(requests))
    }

    /// Sets how many of these requests one client may have, by default a quarter, so that one client cannot take all
    /// places. One more is refused and not charged. A client is the address that
    /// [`client_address`](Self::client_address), [`identify`](Self::identify) or
    /// [`identify_with`](Self::identify_with) finds; of IPv6, the /64. Requests without an address share the places
    /// of all.
    #[must_use]
    pub fn max_delayed_per_client(self, requests: usize) -> Self {
        self.with(|gate| gate.places = gate.places.shared_by(requests))
    }

    /// Calls `observer` with each request that was checked, once: before it is passed on, before it is delayed, or
    /// before its refusal is sent. A request that is refused for its credentials is not checked.
    ///
    /// The observer may return the id of a refusal, for the field `X-Tollgate-Decision` and the body; with `None` the
    /// layer makes one. Allowed requests have none.
    ///
    /// The request waits for the observer: leave slow work to other tasks.
    #[must_use]
    pub fn observe(
        self,
        observer: impl Fn(&Observed<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.with(|gate| gate.observer = Some(Arc::new(observer)))
    }

    /// How many requests are delayed now.
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.gate.places.taken()
    }

    /// The limiter.
    #[must_use]
    pub fn limiter(&self) -> &Limiter<S, C> {
        &self.gate.limiter
    }

    fn with(mut self, change: impl FnOnce(&mut Gate<S, C>)) -> Self {
        change(Arc::make_mut(&mut self.gate));
        self
    }
}

impl<S, C> Clone for RateLimitLayer<S, C> {
    fn clone(&self) -> Self {
        Self { gate: Arc::clone(&self.gate) }
    }
}

impl<S, C> fmt::Debug for RateLimitLayer<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("delayed", &self.delayed()).finish_non_exhaustive()
    }
}

impl<Inner, S, C> Layer<Inner> for RateLimitLayer<S, C> {
    type Service = RateLimit<Inner, S, C>;

    fn layer(&self, inner: Inner) -> Self::Service {
        RateLimit::new(inner, Arc::clone(&self.gate))
    }
}
