//! What all requests share: the limiter and everything around it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::sleep;
use tollgate::http::{HeaderFamilies, PathMatching, RefusalFormat};
use tollgate::identity::{Extractor, Identity, Secret, TokenVerdict};
use tollgate::store::{AnyStore, FleetGate, Histogram, RemoteSettings, StoreSubscriptions};
use tollgate::{Clock as _, Limiter, Micros, Stopwatch, SystemClock, Timestamp};
use tollgate_catalog::{Catalog, CatalogError, Role, Token, View};

use crate::admin::auth::{CheckAccess, Principal, Right, TOKEN_HEADER, Tokens, WRONG_TOKEN};
use crate::app::fleet::Fleet;
use crate::app::offload::Queues;
use crate::app::opening::{Opening, catalog_mailbox, known_key};
use crate::app::readiness::{NodeReadiness, tokens_unknown};
use crate::check::checker::Checker;
use crate::check::decision_id::NodeName;
use crate::check::guard::{Guard, GuardLimits};
use crate::check::idempotency::Idempotency;
use crate::check::journal::Journal;
use crate::check::remote_journal::RemoteJournal;
use crate::check::sealed_id::IdSealer;
use crate::edge::envoy::source::EnvoySource;
use crate::edge::http::extract::BodyBound;
use crate::edge::http::problem::Problem;
use crate::edge::listen::Peer;
use crate::observe::audit_log::AuditLog;
use crate::observe::fleet_figures::FleetFigures;
use crate::observe::history::History;
use crate::observe::metrics::Metrics;
use crate::observe::preview::CheckOptions;
use crate::observe::recent_traffic::RecentTraffic;
use crate::policy::bans::BanQueue;
use crate::policy::rule_cache::RuleCache;
use crate::policy::source::PolicySource;
use crate::settings::{self, DenyStatus, RequestHeaders, Settings};

/// How soon the first use of a token is noted in the catalog.
const TOKEN_USE_DELAY: Duration = Duration::from_secs(1);
/// How often the use of tokens is noted in the catalog, at most.
const TOKEN_USE_INTERVAL: Duration = Duration::from_mins(1);

/// The state of a server. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ServerState(Arc<Shared>);

/// The store of counters, shared by both limiters.
pub(crate) type SharedStore = Arc<AnyStore>;

/// The limiter for domains of Envoy that are in files of envoyproxy/ratelimit.
#[derive(Debug)]
pub(crate) struct Envoy {
    pub(crate) source: EnvoySource,
    pub(crate) limiter: Limiter<SharedStore>,
    /// The header fields in responses to Envoy.
    pub(crate) families: HeaderFamilies,
    /// The bodies of refusals; `None` if they have none.
    pub(crate) refusal: Option<RefusalFormat>,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) checker: Checker,
    pub(crate) limiter: Arc<Limiter<SharedStore>>,
    pub(crate) store_durations: Arc<Histogram>,
    pub(crate) envoy: Envoy,
    pub(crate) policy_source: PolicySource,
    pub(crate) fleet: Fleet,
    pub(crate) bans: BanQueue,
    pub(crate) extractor: Arc<Extractor>,
    pub(crate) guard: Guard,
    pub(crate) journal: Arc<Journal>,
    pub(crate) remote_journal: RemoteJournal,
    pub(crate) audit_log: Arc<AuditLog>,
    pub(crate) history: History,
    pub(crate) recent_traffic: Arc<RecentTraffic>,
    pub(crate) fleet_figures: FleetFigures,
    pub(crate) check_options: CheckOptions,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) families: HeaderFamilies,
    pub(crate) refusal: RefusalFormat,
    pub(crate) deny_status: DenyStatus,
    pub(crate) request_headers: RequestHeaders,
    pub(crate) paths: PathMatching,
    pub(crate) batch_size: usize,
    pub(crate) body_bytes: usize,
    pub(crate) document_bound: BodyBound,
    pub(crate) tenant_document_bound: BodyBound,
    pub(crate) log_bytes: usize,
    pub(crate) queues: Queues,
    pub(crate) request_timeout: Duration,
    /// The admin token of this run, where there is no catalog to keep one in and none was set.
    pub(crate) generated_admin_token: Option<String>,
    pub(crate) is_draining: AtomicBool,
    pub(crate) started: Stopwatch,
    pub(crate) tokens: Tokens,
}

/// Why a server cannot start.
#[derive(Debug)]
pub struct StartError(String);

impl StartError {
    pub(crate) fn new(error: &dyn fmt::Display) -> Self {
        Self(error.to_string())
    }
}

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
    /// Opens what the settings name.
    pub(crate) async fn new(settings: &Settings) -> Result<Self, StartError> {
        let failed = |error: &dyn fmt::Display| StartError::new(error);
        let extractor = Extractor::new(settings.identity.clone()).map_err(|error| {
            // Settings of tokens are named as in the settings file.
            let prefix = if error.setting().starts_with("jwt.") { "identity." } else { "" };
            failed(&format!("{prefix}{error}"))
        })?;
        let memory = settings.memory.to_usize();
        let gate = FleetGate::closed();
        let remote = RemoteSettings { gate: gate.clone(), ..settings.remote.clone() };
        let store = AnyStore::open(&settings.store, memory, &remote)
            .map_err(|problem| failed(&format!("store: {problem}")))?;
        let (store, store_durations) = (Arc::new(store), Arc::new(Histogram::default()));
        let (source, limits) = EnvoySource::open(
            settings.envoy_config.as_deref(),
            settings.envoy.repeated_domain(),
            SystemClock.now(),
        )
        .map_err(StartError)?;
        let envoy = Envoy {
            source,
            limiter: Limiter::builder()
                .policy(limits)
                .store(Arc::clone(&store))
                .store_durations(Arc::clone(&store_durations))
                .unmatched(settings.unmatched)
                .build(),
            families: settings.envoy.headers,
            refusal: settings.envoy.refusal_body.then(|| settings.refusal.clone()),
        };
        let node = NodeName::random(settings.store.is_shared());
        let subscriptions = store
            .subscribe(&settings.store, &node.text(), settings.uses_catalog(), &settings.remote)
            .map_err(|problem| failed(&format!("store: {problem}")))?;
        let StoreSubscriptions { mailbox, rule_cache } = subscriptions;
        let mailbox = mailbox.or_else(|| catalog_mailbox(settings, node));
        // Last, so that an invalid setting leaves no new catalog behind.
        let opening = Opening::of(settings, RuleCache::new(rule_cache));
        let Opening { policy_source, policy } = opening.await?;
        let limits = &settings.limits;
        let guard_limits = GuardLimits {
            check_calls: limits.check_calls_per_second,
            admin_reads: limits.admin_reads_per_minute,
            admin_writes: limits.admin_writes_per_minute,
            tenant_bytes: limits.tenant_write_bytes_per_hour.bytes(),
        };
        let given = settings.added_admin_token().map(|token| token.expose().to_owned());
        // Without a catalog that stores it, the token is valid for this run.
        let generated = match &policy_source {
            PolicySource::File(_) if given.is_none() => {
                let (_, secret) = Token::create(Role::Admin).map_err(|error| failed(&error))?;
                Some(secret)
            }
            _ => None,
        };
        let admin_token = given.or_else(|| generated.clone());
        let check_auth = match settings.check_auth {
            settings::CheckAuth::None => CheckAccess::None,
            settings::CheckAuth::Token => CheckAccess::Token,
            settings::CheckAuth::Mtls => CheckAccess::Certificate,
        };
        let caller_token = settings.check_token.as_ref().map(Secret::expose);
        let lifetime = Micros::new(
            u64::try_from(settings.idempotency.kept_for.as_micros()).unwrap_or(u64::MAX),
        );
        let (bans, penalties) = BanQueue::new();
        let limiter = Limiter::builder().policy(policy).store(store).penalties(penalties);
        let limiter = limiter.path_case(settings.paths.case).unmatched(settings.unmatched);
        let limiter = limiter.store_durations(Arc::clone(&store_durations)).build_shared();
        let metrics = Arc::new(Metrics::default());
        let journal = Arc::new(Journal::new(node, settings.decisions_kept));
        let sealer = Arc::new(IdSealer::new(node));
        let audit_log = Arc::new(AuditLog::new(settings));
        let recent_traffic = Arc::new(RecentTraffic::new(settings.recent_traffic));
        let checker = Checker {
            limiter: Arc::clone(&limiter),
            metrics: Arc::clone(&metrics),
            journal: Arc::clone(&journal),
            sealer: Arc::clone(&sealer),
            audit_log: Arc::clone(&audit_log),
            recent_traffic: Arc::clone(&recent_traffic),
            idempotency: Idempotency::new(settings.idempotency.keys, lifetime),
        };
        let state = Self(Arc::new(Shared {
            checker,
            limiter,
            store_durations,
            envoy,
            policy_source,
            fleet: Fleet::new(settings, gate, sealer),
            bans,
            extractor: Arc::new(extractor),
            guard: Guard::new(guard_limits),
            journal,
            remote_journal: RemoteJournal::new(node, mailbox),
            audit_log,
            history: History::default(),
            recent_traffic,
            fleet_figures: FleetFigures::new(node, SystemClock.now()),
            check_options: CheckOptions {
                path_case: settings.paths.case,
                unmatched: settings.unmatched,
            },
            metrics,
            families: settings.headers,
            refusal: settings.refusal.clone(),
            deny_status: settings.deny_status,
            request_headers: settings.request_headers,
            paths: settings.paths.mode,
            batch_size: limits.batch_size,
            body_bytes: limits.body_bytes.to_usize(),
            document_bound: BodyBound::documents(limits),
            tenant_document_bound: BodyBound::tenant_documents(limits),
            log_bytes: limits.log_bytes.to_usize(),
            queues: Queues::default(),
            request_timeout: limits.request_timeout,
            generated_admin_token: generated,
            is_draining: AtomicBool::new(false),
            started: Stopwatch::start(),
            tokens: Tokens::new(check_auth, admin_token.as_deref(), caller_token),
        }));
        state.install_first();
        if let Err(error) = state.claim_store().await {
            state.close().await;
            return Err(error);
        }
        Ok(state)
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Timestamp {
        self.limiter.clock().now()
    }

    /// The caller, if it is authenticated and has the permission.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        peer: Peer,
        right: Right,
    ) -> Result<Principal, Problem> {
        self.tokens.admit(headers, peer.certificate, right, self.now()).map_err(|problem| {
            if problem.code() != WRONG_TOKEN {
                return problem;
            }
            match self.guard.wrong_token(peer.address.ip()) {
                Err(too_many) => too_many,
                Ok(()) if self.readiness() == NodeReadiness::WaitingForCatalog => tokens_unknown(),
                Ok(()) => problem,
            }
        })
    }

    /// Confirms that a caller that was admitted still has its token, before it changes something.
    pub(crate) fn confirm(&self, principal: &Principal) -> Result<(), Problem> {
        self.tokens.confirm(principal, self.now())
    }

    /// Admits a proxy: `Authorization` is that of its client, so the proxy's token has a separate
    /// header.
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

    /// Whether the settings have a token for administrators, which cannot be revoked.
    pub(crate) const fn has_admin_in_settings(&self) -> bool {
        self.tokens.has_admin_in_settings()
    }

    /// Waits until the token of a principal is revoked or changed, or has expired.
    pub(crate) async fn until_invalid(&self, principal: &Principal) {
        self.tokens.until_invalid(principal, || self.now()).await;
    }

    /// Notes in the catalog which of its tokens are used, until it is dropped.
    pub(crate) async fn note_used_tokens(&self, catalog: &Catalog) {
        loop {
            sleep(TOKEN_USE_DELAY).await;
            let used = self.tokens.take_used();
            if used.is_empty() {
                continue;
            }
            // If this fails, a token that is still used is noted the next time.
            if let Err(error) = catalog.touch_tokens(used.into_iter().collect(), self.now()).await {
                tracing::debug!("the last use of tokens was not noted: {error}");
            }
            sleep(TOKEN_USE_INTERVAL).await;
        }
    }

    /// Puts changes of the catalog into force, if there is one.
    pub(crate) async fn sync(&self) -> Result<(), CatalogError> {
        let PolicySource::Catalog(catalog_sync) = &self.policy_source else { return Ok(()) };
        catalog_sync.sync(self.now(), |before, view| self.install(before, view)).await
    }

    /// Reads the whole catalog again, if there is one.
    pub(crate) async fn sync_all(&self) -> Result<(), CatalogError> {
        let PolicySource::Catalog(catalog_sync) = &self.policy_source else { return Ok(()) };
        catalog_sync.sync_all(self.now(), |before, view| self.install(before, view)).await
    }

    /// Closes the catalog, if there is one.
    pub(crate) async fn close(&self) {
        if let PolicySource::Catalog(catalog_sync) = &self.policy_source {
            catalog_sync.close().await;
        }
    }

    fn install_first(&self) {
        if let PolicySource::Catalog(catalog_sync) = &self.policy_source {
            self.install(&View::default(), &catalog_sync.view());
        }
    }

    pub(super) fn install(&self, before: &View, view: &View) {
        self.limiter.install(view.policy());
        self.tell_revision(view.policy());
        if !Arc::ptr_eq(before.tokens(), view.tokens()) {
            self.tokens.set_catalog(view.tokens());
        }
        if !Arc::ptr_eq(before.api_keys(), view.api_keys()) {
            self.extractor.set_known_keys(view.api_keys().values().filter_map(known_key));
        }
    }

    /// Identifies the client of a request. A rejected token is logged: often tokens of all clients are
    /// invalid at once.
    pub(crate) async fn identify(&self, headers: &HeaderMap, peer: Peer) -> Identity {
        let identity = self.extractor.identify(headers, peer.address.ip(), self.now()).await;
        self.metrics.count_token(identity.token);
        if let TokenVerdict::Rejected(problem) = identity.token {
            let outcome = problem.name();
            tracing::debug!(outcome, client = identity.ip, "a token is rejected: {problem}");
        }
        identity
    }
}
