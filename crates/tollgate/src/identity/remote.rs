//! Keys at a URL: fetched when they are needed, seldom, and by one fetch for all requests.
//!
//! A token with an unknown `kid` may be the first after the issuer changed its keys, so the set is
//! fetched again, but not more often than every [`JwksUrl::pause`]: any client can invent a `kid`.
//! Requests that need the same fetch share it. It is a separate task, so a client that disconnects
//! does not cancel it. When a fetch fails, the keys of the one before stay in use.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use http::uri::Scheme;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt, Collected, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::watch;
use tollgate_core::{Micros, Timestamp};

use super::jwks;
use super::keys::KeySet;

/// The largest set that is read.
const MAX_BODY_BYTES: usize = 256 << 10;

/// Where an issuer publishes its keys, and how often they are fetched.
#[derive(Clone, PartialEq, Eq)]
pub struct JwksUrl {
    /// The address: `https`, or `http` on this machine.
    pub url: Uri,
    /// How old keys may become: 10 minutes by default. They are replaced in the background, while
    /// requests use the old ones.
    pub refresh: Duration,
    /// The least time between two fetches: 30 seconds by default.
    pub pause: Duration,
    /// How long one fetch may take, and with it a request that needs a key not yet known: 2 seconds
    /// by default.
    pub deadline: Duration,
    /// Also allow `http` to other machines, where an attacker on the way can replace the keys.
    pub allow_plain_http: bool,
}

impl JwksUrl {
    /// The usual intervals.
    #[must_use]
    pub const fn new(url: Uri) -> Self {
        Self {
            url,
            refresh: Duration::from_secs(600),
            pause: Duration::from_secs(30),
            deadline: Duration::from_secs(2),
            allow_plain_http: false,
        }
    }
}

/// Queries are left out: some carry a secret.
impl fmt::Debug for JwksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwksUrl")
            .field("url", &format_args!("{}", RedactedUrl(&self.url)))
            .field("refresh", &self.refresh)
            .field("pause", &self.pause)
            .field("deadline", &self.deadline)
            .field("allow_plain_http", &self.allow_plain_http)
            .finish()
    }
}

/// A URL as it may be shown.
struct RedactedUrl<'a>(&'a Uri);

impl fmt::Display for RedactedUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.scheme_str().unwrap_or_default();
        write!(f, "{scheme}://{}", self.0.host().unwrap_or_default())?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(self.0.path())
    }
}

/// The keys at a URL, as far as they are known.
pub(super) struct RemoteKeys {
    source: JwksUrl,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    loaded: ArcSwap<Loaded>,
    failure: ArcSwapOption<String>,
    flight: Mutex<Flight>,
}

/// A set and when its fetch began; never, if there was none.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) keys: KeySet,
    pub(super) at: Option<Timestamp>,
}

/// The newest fetch. It has ended when the channel is closed.
struct Flight {
    began: Option<Timestamp>,
    over: watch::Receiver<()>,
}

impl RemoteKeys {
    pub(super) fn new(source: JwksUrl) -> Result<Self, String> {
        check(&source)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector(&source)?);
        let (_, over) = watch::channel(());
        Ok(Self {
            source,
            client,
            loaded: ArcSwap::default(),
            failure: ArcSwapOption::empty(),
            flight: Mutex::new(Flight { began: None, over }),
        })
    }

    /// The keys for a token. Waits for a fetch only if there is none for it.
    pub(super) async fn for_token(
        self: &Arc<Self>,
        kid: Option<&str>,
        now: Timestamp,
    ) -> Arc<Loaded> {
        let loaded = self.loaded.load_full();
        if !loaded.keys.knows(kid) {
            let mut over = self.fetch_unless_lately(now);
            while over.changed().await.is_ok() {}
            return self.loaded.load_full();
        }
        if loaded.at.is_none_or(|at| is_apart(at, now, self.source.refresh)) {
            self.fetch_unless_lately(now);
        }
        loaded
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.load().as_deref().cloned()
    }

    /// Begins a fetch unless one is under way or began lately. The returned channel is closed when the
    /// newest fetch has ended.
    fn fetch_unless_lately(self: &Arc<Self>, now: Timestamp) -> watch::Receiver<()> {
        let mut flight = self.flight.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = flight.over.has_changed().is_err();
        let is_due = flight.began.is_none_or(|began| is_apart(began, now, self.source.pause));
        if is_over && is_due {
            let (under_way, over) = watch::channel(());
            *flight = Flight { began: Some(now), over };
            let remote = Arc::clone(self);
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn(async move {
                    remote.fetch(now).await;
                    drop(under_way);
                })),
                Err(error) => self.failure.store(Some(Arc::new(error.to_string()))),
            }
        }
        flight.over.clone()
    }

    async fn fetch(&self, now: Timestamp) {
        let deadline = self.source.deadline;
        let answer = tokio::time::timeout(deadline, self.get()).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {deadline:?}")));
        let failure = match answer.and_then(|body| jwks::parse(&body)) {
            // A set without keys counts: that is how an issuer takes all of them back.
            Ok(parsed) => {
                let failure = parsed.why_empty();
                self.loaded.store(Arc::new(Loaded { keys: parsed.keys, at: Some(now) }));
                failure
            }
            Err(reason) => Some(reason),
        };
        let failure =
            failure.map(|why| Arc::new(format!("{}: {why}", RedactedUrl(&self.source.url))));
        self.failure.store(failure);
    }

    async fn get(&self) -> Result<Bytes, String> {
        let response = self.client.get(self.source.url.clone()).await;
        let response = response.map_err(|error| causes(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("answered {}, not 200", response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
        body.map(Collected::to_bytes).map_err(|error| causes(&*error))
    }
}

impl fmt::Debug for RemoteKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteKeys")
            .field("source", &self.source)
            .field("loaded", &self.loaded)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

/// Whether two times are that far apart, in either direction: a clock that was set back must not
/// keep keys from being fetched until it has caught up.
fn is_apart(one: Timestamp, other: Timestamp, span: Duration) -> bool {
    let distance = one.since(other).plus(other.since(one));
    distance >= Micros::new(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

fn check(source: &JwksUrl) -> Result<(), String> {
    let place = RedactedUrl(&source.url);
    let Some(host) = source.url.host() else {
        return Err("not a URL such as https://issuer.example/jwks.json".into());
    };
    if source.url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(format!("{place} has a user name or password in it; leave them out"));
    }
    let is_plain = match source.url.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => false,
        Some(scheme) if *scheme == Scheme::HTTP => true,
        _ => return Err(format!("{place} begins neither with https:// nor with http://")),
    };
    if is_plain && !source.allow_plain_http && !is_this_machine(host) {
        return Err(format!(
            "an attacker between here and {place} could replace the keys; use https"
        ));
    }
    if source.deadline.is_zero() || source.deadline > source.pause {
        return Err("the deadline of a fetch must be above zero and at most the pause".into());
    }
    Ok(())
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Certificates are verified with the system's authorities. Without TLS there are none to load.
fn connector(source: &JwksUrl) -> Result<HttpsConnector<HttpConnector>, String> {
    let provider = aws_lc_rs::default_provider();
    if source.url.scheme() == Some(&Scheme::HTTPS) {
        let builder = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider);
        let builder = builder
            .map_err(|error| format!("the system has no certificate authorities: {error}"))?;
        return Ok(builder.https_only().enable_http1().build());
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    Ok(HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build())
}

/// An error and what caused it, which is where clients of HTTP say what happened.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
