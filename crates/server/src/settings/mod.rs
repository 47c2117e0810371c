//! The settings of the server: their values, defaults and origins.
//!
//! Flags win over the environment, the environment over the file, the file over the defaults.
//! [`Settings::load`] reports all problems at once.

mod about;
mod api_versions;
mod audit;
mod catalog;
mod checks;
mod envoy;
pub mod exposure;
mod gateway;
mod idempotency;
mod identity;
mod jwt;
mod layers;
mod listen_address;
mod log;
mod names;
mod origin;
mod otlp;
mod refusal;
mod schema;
mod store;
mod unknown;
mod value;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate::http::{HeaderFamilies, PathMatching, RefusalFormat};
use tollgate::identity::IdentityConfig;
pub use tollgate::identity::Secret;
use tollgate::store::{RemoteSettings, StoreUrl};
use tollgate::{PathCase, Unmatched};
pub use tollgate_catalog::CatalogUrl;
use tollgate_catalog::{Token, WriteBounds};

pub use about::about;
pub use api_versions::VersionNotice;
pub use audit::Audit;
pub use envoy::EnvoySettings;
pub use gateway::GatewaySettings;
pub use idempotency::IdempotencySettings;
pub use layers::{EffectiveSetting, FLAGGED, flag, variable};
pub use listen_address::ListenAddress;
pub use log::{LogFormat, LogLevel};
pub use origin::{Origin, RefusedSetting, RefusedSettings};
pub use otlp::Otlp;
pub use value::ByteSize;

/// All settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the check API listens; port 0 takes any free one.
    pub http: SocketAddr,
    /// Where the admin API listens, if separate from the check API. [`Settings::load`] sets it to
    /// [`ADMIN_ON_LOOPBACK`] if it is not set and other machines can reach `http`.
    pub admin: Option<SocketAddr>,
    /// Where gRPC and Envoy's rate limit service listen; port 0 takes any free one.
    pub grpc: ListenAddress,
    /// Names under which the check API is called on loopback without a token, besides `localhost`.
    pub hosts: Vec<String>,
    /// Whether the listener of the admin API has the dashboard.
    pub dashboard: bool,
    /// The gateway, which checks and forwards requests, if there is one.
    pub gateway: Option<GatewaySettings>,
    /// The policy file; without one, rules are in the catalog.
    pub rules: Option<PathBuf>,
    /// The database of rules, clients and tokens, if [`Settings::uses_catalog`].
    pub catalog: CatalogUrl,
    /// Whether rules that are not in a file are in a catalog. [`Settings::load`] clears it if files of
    /// envoyproxy/ratelimit are all that the server is for.
    pub has_catalog: bool,
    /// The file that a node starts from when the catalog is unavailable; none for a catalog that is a
    /// file.
    pub catalog_copy: Option<PathBuf>,
    /// A directory with files of envoyproxy/ratelimit.
    pub envoy_config: Option<PathBuf>,
    /// How Envoy's rate limit service responds.
    pub envoy: EnvoySettings,
    /// Where counters are.
    pub store: StoreUrl,
    /// Timeouts and the circuit breaker of a shared store.
    pub remote: RemoteSettings,
    /// The most memory that counters may take.
    pub memory: ByteSize,
    /// How callers of the check API authenticate.
    pub check_auth: CheckAuth,
    /// The token of callers of the check API.
    pub check_token: Option<Secret>,
    /// The token of administrators; without one, the server creates one at start.
    pub admin_token: Option<Secret>,
    /// The secret that all nodes of the fleet have; without one, it is in the catalog.
    pub fleet_secret: Option<Secret>,
    /// The secret that the nodes of the fleet had before, while it is changed node by node.
    pub fleet_previous_secret: Option<Secret>,
    /// The header fields that show clients their limits.
    pub headers: HeaderFamilies,
    /// The format of log lines.
    pub log: LogFormat,
    /// The lowest level that is logged.
    pub log_level: LogLevel,
    /// Where traces are sent, and how many.
    pub otlp: Otlp,
    /// Files for TLS; without them connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// How clients are identified, also behind proxies.
    pub identity: IdentityConfig,
    /// The status and body of refusals at the gateway and in forward-auth.
    pub refusal: RefusalFormat,
    /// What happens to requests that no rule applies to.
    pub unmatched: Unmatched,
    /// The status of a refusal in forward-auth.
    pub deny_status: DenyStatus,
    /// Which headers describe the request in forward-auth.
    pub request_headers: RequestHeaders,
    /// How the paths of requests are read and matched.
    pub paths: Paths,
    /// What responses say about the end of version 1 of the HTTP API.
    pub api_v1: VersionNotice,
    /// Limits on what clients may use of the server.
    pub limits: Limits,
    /// How many recent decisions can be explained.
    pub decisions_kept: usize,
    /// The most memory that recent requests take, which a preview replays; 0 keeps none.
    pub recent_traffic: ByteSize,
    /// What is kept of decisions and changes, and for how long.
    pub audit: Audit,
    /// How long responses are kept for repeated calls.
    pub idempotency: IdempotencySettings,
}

/// Where the admin API listens if it is not set and other machines can reach the check API.
pub const ADMIN_ON_LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8082);

impl Default for Settings {
    fn default() -> Self {
        Self {
            http: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            admin: None,
            grpc: SocketAddr::from((Ipv4Addr::LOCALHOST, 8081)).into(),
            hosts: Vec::new(),
            dashboard: true,
            gateway: None,
            rules: None,
            catalog: CatalogUrl::default(),
            has_catalog: true,
            catalog_copy: None,
            envoy_config: None,
            envoy: EnvoySettings::default(),
            store: StoreUrl::default(),
            remote: RemoteSettings::default(),
            memory: ByteSize::mebibytes(256),
            check_auth: CheckAuth::None,
            check_token: None,
            admin_token: None,
            fleet_secret: None,
            fleet_previous_secret: None,
            headers: HeaderFamilies::default(),
            log: LogFormat::Text,
            log_level: LogLevel::Info,
            otlp: Otlp::default(),
            tls: None,
            identity: identity::behind_local_proxies(),
            refusal: RefusalFormat::default(),
            unmatched: Unmatched::default(),
            deny_status: DenyStatus::TooManyRequests,
            request_headers: RequestHeaders::Any,
            paths: Paths::default(),
            api_v1: VersionNotice::default(),
            limits: Limits::default(),
            decisions_kept: 16_384,
            recent_traffic: ByteSize::mebibytes(64),
            audit: Audit::default(),
            idempotency: IdempotencySettings { keys: 100_000, kept_for: Duration::from_mins(5) },
        }
    }
}

impl Settings {
    /// Loads settings from flags (by the names of the settings they set), environment variables and a
    /// file.
    ///
    /// # Errors
    /// All problems, each with the name and origin of its setting.
    pub fn load(
        flags: &[(&'static str, String)],
        environment: &BTreeMap<String, String>,
        file: Option<&Path>,
    ) -> Result<Effective, RefusedSettings> {
        let mut layers = layers::Layers::new(flags, environment, file);
        let mut settings = Self::default();
        names::read_all(&mut layers, &mut settings);
        let entries = layers.finish()?;
        Ok(Effective { settings, entries })
    }

    /// Loads where the check API listens, and whether with TLS. Other settings are not read: probes need none of them, and
    /// may not be allowed to read the files of secrets.
    ///
    /// # Errors
    /// All problems of these settings, each with its name and origin.
    pub fn load_check_api(
        flags: &[(&'static str, String)],
        environment: &BTreeMap<String, String>,
        file: Option<&Path>,
    ) -> Result<(SocketAddr, Option<TlsFiles>), RefusedSettings> {
        let mut layers = layers::Layers::new(flags, environment, file);
        let mut http = Self::default().http;
        layers.read("http", &mut http);
        let tls = names::read_tls(&mut layers);
        layers.refused().map(|()| (http, tls))
    }

    /// Whether rules and tokens are in a catalog, not in a file or nowhere.
    #[must_use]
    pub const fn uses_catalog(&self) -> bool {
        self.rules.is_none() && self.has_catalog
    }

    /// The admin token that the settings add to those of the catalog. A token made by a catalog is not
    /// added: it would stay valid after it was revoked there.
    #[must_use]
    pub fn added_admin_token(&self) -> Option<&Secret> {
        let is_of_catalog = |token: &&Secret| {
            self.uses_catalog() && Token::id_in(token.expose().as_bytes()).is_some()
        };
        self.admin_token.as_ref().filter(|token| !is_of_catalog(token))
    }
}

/// Settings in force, each with its origin.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The settings.
    pub settings: Settings,
    /// The settings as texts with their origins; secrets are hidden.
    pub entries: Vec<EffectiveSetting>,
}

impl Effective {
    /// Where the setting of that name came from.
    #[must_use]
    pub fn origin(&self, name: &str) -> &Origin {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        entry.map_or(&Origin::Default, |entry| &entry.origin)
    }
}

/// How callers of the check API authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckAuth {
    /// Not at all: every client that reaches the port may check.
    None,
    /// By a token.
    Token,
    /// By a client certificate.
    Mtls,
}

/// The status of a refusal in forward-auth. Some proxies pass on only a few.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DenyStatus {
    /// 429.
    TooManyRequests,
    /// 403, for nginx: its `auth_request` takes other statuses for failures.
    Forbidden,
}

/// Which headers describe the request in forward-auth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestHeaders {
    /// Both families, unless they disagree; the path behind that of the call wins over both.
    Any,
    /// `X-Original-Method`, `-URI`, `-Host`.
    Original,
    /// `X-Forwarded-Method`, `-Uri`, `-Host`.
    Forwarded,
}

/// How the paths of requests are read and matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paths {
    /// What the gateway and forward-auth do with ambiguous paths, which servers read in different ways.
    pub mode: PathMatching,
    /// Whether capital letters matter.
    pub case: PathCase,
}

impl Default for Paths {
    fn default() -> Self {
        Self { mode: PathMatching::Strict, case: PathCase::Sensitive }
    }
}

/// The files that TLS needs, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of this server with its chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities whose client certificates are accepted.
    pub client_ca: Option<PathBuf>,
}

/// Limits on what clients may use of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls of the check API, of all callers; 0 for any number.
    pub check_calls_per_second: u64,
    /// Reading calls of the admin API, for each caller.
    pub admin_reads_per_minute: u64,
    /// Changing calls of the admin API, for each caller.
    pub admin_writes_per_minute: u64,
    /// Bytes that all administrators of a tenant together may write in an hour.
    pub tenant_write_bytes_per_hour: ByteSize,
    /// The largest body.
    pub body_bytes: ByteSize,
    /// The largest policy document of operators.
    pub document_bytes: ByteSize,
    /// The largest policy document of administrators of a tenant.
    pub tenant_document_bytes: ByteSize,
    /// The largest access log that the dashboard replays.
    pub log_bytes: ByteSize,
    /// The largest rule in the catalog.
    pub rule_bytes: ByteSize,
    /// The most globs of a rule in the catalog.
    pub globs_per_rule: usize,
    /// The most rules that administrators of a tenant write.
    pub rules_per_tenant: usize,
    /// The largest size of all rules that administrators of a tenant write.
    pub rule_bytes_per_tenant: ByteSize,
    /// The most overrides and list entries that administrators of a tenant write.
    pub entries_per_tenant: usize,
    /// The most checks in one call.
    pub batch_size: usize,
    /// The most header fields of a request.
    pub header_count: usize,
    /// The largest head of a request.
    pub header_bytes: ByteSize,
    /// The most connections at a time, on each listener.
    pub connections: usize,
    /// How long the head of a request may take to arrive, and a TLS handshake to finish.
    pub header_timeout: Duration,
    /// How long a connection may wait for its next request.
    pub idle_timeout: Duration,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// How long traffic is still taken after the signal to shut down: load balancers need time to notice.
    pub shutdown_delay: Duration,
    /// How long requests may take to finish after the signal to shut down.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            check_calls_per_second: 100_000,
            admin_reads_per_minute: 1_000,
            admin_writes_per_minute: 100,
            tenant_write_bytes_per_hour: ByteSize::mebibytes(16),
            body_bytes: ByteSize::mebibytes(1),
            document_bytes: ByteSize::mebibytes(16),
            tenant_document_bytes: ByteSize::mebibytes(1),
            log_bytes: ByteSize::mebibytes(64),
            rule_bytes: ByteSize::kibibytes(64),
            globs_per_rule: 1_000,
            rules_per_tenant: 50,
            rule_bytes_per_tenant: ByteSize::mebibytes(4),
            entries_per_tenant: 10_000,
            batch_size: 1_000,
            header_count: 100,
            header_bytes: ByteSize::kibibytes(64),
            connections: 10_000,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            request_timeout: Duration::from_secs(30),
            shutdown_delay: Duration::ZERO,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// The bounds of writes to the catalog.
    pub(crate) fn write_bounds(&self) -> WriteBounds {
        WriteBounds {
            rule_bytes: self.rule_bytes.to_usize(),
            globs_per_rule: self.globs_per_rule,
            rules_per_tenant: self.rules_per_tenant,
            rule_bytes_per_tenant: self.rule_bytes_per_tenant.to_usize(),
            entries_per_tenant: self.entries_per_tenant,
        }
    }
}
