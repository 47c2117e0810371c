//! What all requests share: the limiter and everything around it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_lc_rs::rand;
use http::HeaderMap;
use tollgate::http::HeaderFamilies;
use tollgate::identity::{Extractor, Identity, Secret, TokenVerdict};
use tollgate::store::AnyStore;
use tollgate::{Clock as _, Limiter, MemoryStore, Micros, SystemClock, Timestamp};

use crate::auth::{CheckAuth, Principal, Right, TOKEN_HEADER, Tokens, WRONG_TOKEN};
use crate::guard::{Guard, GuardLimits};
use crate::histogram::Histogram;
use crate::idempotency::Idempotency;
use crate::journal::Journal;
use crate::listen::Peer;
use crate::metrics::{Metrics, Reading};
use crate::policy_source::PolicySource;
use crate::problem::Problem;
use crate::rls::source::EnvoySource;
use crate::settings::{self, DenyStatus, RequestHeaders, Settings};
use crate::store::TimedStore;

/// The state of a server. Clones are one and the same.
#[derive(Clone, Debug)]
pub(crate) struct ServerState(Arc<Shared>);

/// The counters, for all that judge.
pub(crate) type SharedStore = Arc<TimedStore>;

/// What judges domains of Envoy that are in files of their own.
#[derive(Debug)]
pub(crate) struct Envoy {
    pub(crate) source: EnvoySource,
    pub(crate) limiter: Limiter<SharedStore>,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limiter: Limiter<SharedStore>,
    pub(crate) envoy: Envoy,
    pub(crate) policy_source: PolicySource,
    pub(crate) extractor: Extractor,
    pub(crate) guard: Guard,
    pub(crate) journal: Journal,
    pub(crate) idempotency: Idempotency,
    pub(crate) metrics: Metrics,
    pub(crate) families: HeaderFamilies,
    pub(crate) deny_status: DenyStatus,
    pub(crate) request_headers: RequestHeaders,
    pub(crate) batch_size: usize,
    pub(crate) body_bytes: usize,
    pub(crate) request_timeout: Duration,
    pub(crate) generated_admin_token: Option<String>,
    pub(crate) is_draining: AtomicBool,
    tokens: Tokens,
}

/// Why a server cannot start.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

impl Deref for ServerState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl ServerState {
    /// Reads what the settings name.
    pub(crate) fn new(settings: &Settings) -> Result<Self, StartError> {
        let failed = |error: &dyn fmt::Display| StartError(error.to_string());
        let for_redis = settings.store.is_redis();
        let (policy_source, policy) =
            PolicySource::open(settings.rules.as_deref(), for_redis, SystemClock.now())
                .map_err(StartError)?;
        let extractor = Extractor::new(settings.identity.clone()).map_err(|error| {
            // Settings of tokens are named as in the settings file.
            let prefix = if error.setting().starts_with("jwt.") { "identity." } else { "" };
            failed(&format!("{prefix}{error}"))
        })?;
        let memory = settings.memory.to_usize();
        let inner = AnyStore::open(&settings.store, memory, &settings.remote)
            .map_err(|problem| failed(&format!("store: {problem}")))?;
        let store = Arc::new(TimedStore { inner, durations: Arc::new(Histogram::default()) });
        let (source, limits) =
            EnvoySource::open(settings.envoy_config.as_deref(), SystemClock.now())
                .map_err(StartError)?;
        let envoy = Envoy {
            source,
            limiter: Limiter::builder().policy(limits).store(Arc::clone(&store)).build(),
        };
        let limits = &settings.limits;
        let guard_limits = GuardLimits {
            check_calls: limits.check_calls_per_second,
            admin_reads: limits.admin_reads_per_minute,
            admin_writes: limits.admin_writes_per_minute,
        };
        let given = settings.admin_token.as_ref().map(|token| token.expose().to_owned());
        let generated = if given.is_some() { None } else { Some(random_token()?) };
        let admin_token = given.or_else(|| generated.clone()).unwrap_or_default();
        let check_auth = match settings.check_auth {
            settings::CheckAuth::None => CheckAuth::None,
            settings::CheckAuth::Token => CheckAuth::Token,
            settings::CheckAuth::Mtls => CheckAuth::Certificate,
        };
        let caller_token = settings.check_token.as_ref().map(Secret::expose);
        let lifetime = Micros::new(
            u64::try_from(settings.idempotency.kept_for.as_micros()).unwrap_or(u64::MAX),
        );
        Ok(Self(Arc::new(Shared {
            limiter: Limiter::builder().policy(policy).store(store).build(),
            envoy,
            policy_source,
            extractor,
            guard: Guard::new(guard_limits),
            journal: Journal::new(random_node(), settings.decisions_kept),
            idempotency: Idempotency::new(settings.idempotency.keys, lifetime),
            metrics: Metrics::default(),
            families: settings.headers,
            deny_status: settings.deny_status,
            request_headers: settings.request_headers,
            batch_size: limits.batch_size,
            body_bytes: limits.body_bytes.to_usize(),
            request_timeout: limits.request_timeout,
            generated_admin_token: generated,
            is_draining: AtomicBool::new(false),
            tokens: Tokens::new(check_auth, &admin_token, caller_token),
        })))
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Timestamp {
        self.limiter.clock().now()
    }

    /// Who is calling, if that is enough for what is called.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        peer: Peer,
        right: Right,
    ) -> Result<Principal, Problem> {
        self.tokens.admit(headers, peer.certificate, right).map_err(|problem| {
            let is_wrong = problem.code() == WRONG_TOKEN;
            let counted = if is_wrong { self.guard.wrong_token(peer.address.ip()) } else { Ok(()) };
            counted.err().unwrap_or(problem)
        })
    }

    /// The same for a proxy: `Authorization` is that of its client, so its own token has a header of
    /// its own.
    pub(crate) fn admit_proxy(&self, headers: &HeaderMap, peer: Peer) -> Result<(), Problem> {
        if !self.tokens.needs_token(peer.certificate, Right::Caller) {
            return Ok(());
        }
        let mut own = HeaderMap::new();
        if let Some(token) = headers.get(TOKEN_HEADER) {
            own.insert(TOKEN_HEADER, token.clone());
        }
        self.admit(&own, peer, Right::Caller).map(drop).map_err(Problem::for_a_proxy)
    }

    /// Who is calling the admin API, counted against the limits on it.
    pub(crate) fn admit_admin(
        &self,
        headers: &HeaderMap,
        peer: Peer,
        right: Right,
        is_write: bool,
    ) -> Result<HeaderMap, Problem> {
        let principal = self.admit(headers, peer, right)?;
        self.guard.admin_call(principal, is_write)
    }

    /// Who a request is from. A token that is not believed is not the client's business alone: most
    /// are wrong for all clients at once.
    pub(crate) async fn identify(&self, headers: &HeaderMap, peer: Peer) -> Identity {
        let identity = self.extractor.identify(headers, peer.address.ip(), self.now()).await;
        self.metrics.count_token(identity.token);
        if let TokenVerdict::Rejected(problem) = identity.token {
            let outcome = problem.name();
            tracing::debug!(outcome, client = identity.ip, "a token is not believed: {problem}");
        }
        identity
    }

    /// All figures at this moment.
    pub(crate) fn reading(&self) -> Reading {
        let store = self.limiter.store();
        let memory = store.inner.memory();
        let loaded = self.policy_source.loaded.load();
        Reading {
            rules_in_force: self.limiter.policy().rules().len(),
            rules: self.limiter.stats().into_iter().chain(self.envoy.limiter.stats()).collect(),
            calls: self.metrics.calls(),
            tokens: self.metrics.tokens(),
            skew_seconds: self.metrics.skew_seconds(),
            values: self.envoy.source.loaded.load().values.read(),
            checks: self.metrics.checks.read(),
            store: store.durations.read(),
            responses: self.metrics.responses(),
            servers: store.inner.status(),
            remembered_refusals: store.inner.remembered_refusals(),
            counters: memory.map_or(0, MemoryStore::len),
            memory_bytes: memory.map_or(0, MemoryStore::bytes),
            evictions: memory.map_or(0, MemoryStore::evicted),
            policy_revision: loaded.revision.number,
            policy_age_seconds: self.now().since(loaded.at).get() as f64 / 1e6,
            config_errors: self.policy_source.errors.load(Ordering::Relaxed)
                + self.envoy.source.errors.load(Ordering::Relaxed),
            idempotency_keys: self.idempotency.len(),
            ready: !self.is_draining.load(Ordering::Relaxed),
        }
    }
}

/// A token that nobody can guess.
fn random_token() -> Result<String, StartError> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| StartError("the system gives no random numbers".into()))?;
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16));
    Ok(std::iter::once("tg_").flat_map(str::chars).chain(digits).collect())
}

/// Tells this process from others, and from itself before a restart.
fn random_node() -> u32 {
    let mut bytes = [0; 4];
    // Without random numbers there would be no token either.
    let _ = rand::fill(&mut bytes);
    u32::from_le_bytes(bytes)
}
