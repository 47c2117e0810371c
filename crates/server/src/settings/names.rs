//! Reads every setting by its name: the one list of what a settings file may contain.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tollgate::http::{HeaderFamilies, HeaderFamily, PathMatching};
use tollgate::identity::Secret;
use tollgate::{PathCase, Unmatched};
use tollgate_document::{Problem, Value};

use super::layers::{Layers, SecretNames};
use super::value::{ByteSize, Choice, Setting, problem};
use super::{
    CheckAuth, DenyStatus, IdempotencySettings, Limits, LogFormat, LogLevel, RequestHeaders,
    Settings, TlsFiles,
};
use super::{api_versions, audit, catalog, checks, envoy, gateway, identity, otlp, refusal, store};
use crate::edge::host_check::not_a_host;

const CHECK_TOKEN: SecretNames =
    SecretNames { name: "check_token", file: "check_token_file", variable: "TOLLGATE_CHECK_TOKEN" };
const ADMIN_TOKEN: SecretNames =
    SecretNames { name: "admin_token", file: "admin_token_file", variable: "TOLLGATE_ADMIN_TOKEN" };

const FLEET_SECRET: SecretNames = SecretNames {
    name: "fleet.secret",
    file: "fleet.secret_file",
    variable: "TOLLGATE_FLEET_SECRET",
};

const FLEET_PREVIOUS_SECRET: SecretNames = SecretNames {
    name: "fleet.previous_secret",
    file: "fleet.previous_secret_file",
    variable: "TOLLGATE_FLEET_PREVIOUS_SECRET",
};

/// The least length of the fleet's secret, so that it cannot be guessed.
const MIN_FLEET_SECRET: usize = 32;

fn not_a_fleet_secret(text: &str) -> Option<&'static str> {
    let is_short = text.len() < MIN_FLEET_SECRET;
    is_short.then_some("expected at least 32 characters; make one with openssl rand -hex 32")
}

/// A token must fit into a header as it is.
fn not_a_token(text: &str) -> Option<&'static str> {
    let is_word = text.bytes().all(|byte| byte.is_ascii_graphic());
    (!is_word).then_some("expected one word of visible ASCII characters, without spaces")
}

/// Reads all settings.
pub(super) fn read_all(layers: &mut Layers<'_>, settings: &mut Settings) {
    let mut check_auth = None;
    layers.read("http", &mut settings.http);
    layers.read("admin", &mut settings.admin);
    layers.read("grpc", &mut settings.grpc);
    layers.read_if("hosts", &mut settings.hosts, |names| {
        names.iter().find_map(|name| not_a_host(name))
    });
    layers.read("dashboard", &mut settings.dashboard);
    layers.read("rules", &mut settings.rules);
    catalog::read(layers, settings);
    layers.read("envoy_config", &mut settings.envoy_config);
    envoy::read(layers, &mut settings.envoy);
    layers.read("store", &mut settings.store);
    let least_memory = ByteSize::mebibytes(1);
    layers.read_within("memory", &mut settings.memory, least_memory..=ByteSize::new(1 << 50));
    store::read(layers, &mut settings.remote);
    layers.read("check_auth", &mut check_auth);
    settings.check_token = layers.read_secret(&CHECK_TOKEN, not_a_token);
    settings.admin_token = layers.read_secret(&ADMIN_TOKEN, not_a_token);
    settings.fleet_secret = layers.read_secret(&FLEET_SECRET, not_a_fleet_secret);
    let current = settings.fleet_secret.as_ref().map(Secret::expose);
    settings.fleet_previous_secret = layers.read_secret(&FLEET_PREVIOUS_SECRET, |text| {
        let is_current = current.is_some_and(|current| current == text);
        let is_current =
            is_current.then_some("it is the fleet's secret of now; expected the one before it");
        not_a_fleet_secret(text).or(is_current)
    });
    layers.read("headers", &mut settings.headers);
    layers.read("log", &mut settings.log);
    layers.read("log_level", &mut settings.log_level);
    otlp::read(layers, &mut settings.otlp);
    settings.tls = read_tls(layers);
    identity::read(layers, &mut settings.identity);
    gateway::read(layers, settings);
    catalog::leave_out(layers, settings);
    refusal::read(layers, &mut settings.refusal);
    layers.read("unmatched", &mut settings.unmatched);
    layers.read("authorize.deny_status", &mut settings.deny_status);
    layers.read("authorize.request_headers", &mut settings.request_headers);
    layers.read("paths.mode", &mut settings.paths.mode);
    layers.read("paths.case", &mut settings.paths.case);
    api_versions::read(layers, &mut settings.api_v1);
    read_limits(layers, &mut settings.limits);
    layers.read_within("decisions_kept", &mut settings.decisions_kept, 0..=10_000_000);
    let most = ByteSize::kibibytes(0)..=ByteSize::mebibytes(4 << 10);
    layers.read_within("recent_traffic", &mut settings.recent_traffic, most);
    audit::read(layers, settings);
    let IdempotencySettings { keys, kept_for } = &mut settings.idempotency;
    layers.read_within("idempotency.keys", keys, 0..=100_000_000);
    let mut seconds = kept_for.as_secs();
    layers.read_within("idempotency.seconds", &mut seconds, 1..=86_400);
    *kept_for = Duration::from_secs(seconds);
    checks::check_auth(layers, settings, check_auth);
}

fn read_limits(layers: &mut Layers<'_>, limits: &mut Limits) {
    let calls = &mut limits.check_calls_per_second;
    layers.read_within("limits.check_calls_per_second", calls, 0..=1_000_000_000);
    let rates = 1..=1_000_000_000;
    let reads = &mut limits.admin_reads_per_minute;
    layers.read_within("limits.admin_reads_per_minute", reads, rates.clone());
    let writes = &mut limits.admin_writes_per_minute;
    layers.read_within("limits.admin_writes_per_minute", writes, rates);
    let bodies = ByteSize::kibibytes(1)..=ByteSize::mebibytes(1_024);
    layers.read_within("limits.body_bytes", &mut limits.body_bytes, bodies.clone());
    read_document_limits(layers, limits, &bodies);
    layers.read_within("limits.batch_size", &mut limits.batch_size, 1..=100_000);
    layers.read_within("limits.header_count", &mut limits.header_count, 10..=10_000);
    // The HTTP library keeps buffers of at least 8 KiB.
    let heads = ByteSize::kibibytes(8)..=ByteSize::mebibytes(16);
    layers.read_within("limits.header_bytes", &mut limits.header_bytes, heads);
    layers.read_within("limits.connections", &mut limits.connections, 1..=1_000_000);
    let times = Duration::from_millis(100)..=Duration::from_hours(24);
    layers.read_within("limits.header_timeout", &mut limits.header_timeout, times.clone());
    layers.read_within("limits.idle_timeout", &mut limits.idle_timeout, times.clone());
    layers.read_within("limits.request_timeout", &mut limits.request_timeout, times);
    let graces = Duration::ZERO..=Duration::from_hours(1);
    layers.read_within("limits.shutdown_delay", &mut limits.shutdown_delay, graces.clone());
    layers.read_within("limits.shutdown_grace", &mut limits.shutdown_grace, graces);
}

/// Bounds on documents and on writes to the catalog.
fn read_document_limits(
    layers: &mut Layers<'_>,
    limits: &mut Limits,
    sizes: &RangeInclusive<ByteSize>,
) {
    let counts = 1..=1_000_000;
    let documents = &mut limits.document_bytes;
    layers.read_within("limits.document_bytes", documents, sizes.clone());
    let written = &mut limits.tenant_write_bytes_per_hour;
    let most = ByteSize::kibibytes(1)..=ByteSize::mebibytes(1 << 20);
    layers.read_within("limits.tenant_write_bytes_per_hour", written, most);
    let documents = &mut limits.tenant_document_bytes;
    layers.read_within("limits.tenant_document_bytes", documents, sizes.clone());
    layers.read_within("limits.log_bytes", &mut limits.log_bytes, sizes.clone());
    layers.read_within("limits.rule_bytes", &mut limits.rule_bytes, sizes.clone());
    layers.read_within("limits.globs_per_rule", &mut limits.globs_per_rule, counts.clone());
    layers.read_within("limits.rules_per_tenant", &mut limits.rules_per_tenant, counts.clone());
    let rules = &mut limits.rule_bytes_per_tenant;
    layers.read_within("limits.rule_bytes_per_tenant", rules, sizes.clone());
    layers.read_within("limits.entries_per_tenant", &mut limits.entries_per_tenant, counts);
}

/// Reads the files that TLS needs.
pub(super) fn read_tls(layers: &mut Layers<'_>) -> Option<TlsFiles> {
    let (mut certificate, mut key, mut client_ca): (Option<PathBuf>, Option<PathBuf>, _) =
        (None, None, None);
    layers.read("tls.certificate", &mut certificate);
    layers.read("tls.key", &mut key);
    layers.read("tls.client_ca", &mut client_ca);
    match (certificate, key) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key, client_ca }),
        (Some(_), None) => {
            layers.refuse("tls.certificate", "a certificate needs its key; name it in tls.key");
            None
        }
        (None, Some(_)) => {
            layers.refuse("tls.key", "a key needs its certificate; name it in tls.certificate");
            None
        }
        (None, None) => {
            if client_ca.is_some() {
                let message = "client certificates need TLS; name tls.certificate and tls.key too";
                layers.refuse("tls.client_ca", message);
            }
            None
        }
    }
}

/// A list of families that do not use the same fields.
impl Setting for HeaderFamilies {
    fn expected() -> String {
        <Vec<HeaderFamily>>::expected()
    }

    fn parse(text: &str) -> Option<Self> {
        Self::new(Vec::parse(text)?).ok()
    }

    fn read(value: &Value) -> Result<Self, Problem> {
        let families = <Vec<HeaderFamily>>::read(value)?;
        Self::new(families).map_err(|colliding| problem(colliding.to_string()))
    }

    fn show(&self) -> Json {
        self.iter().map(HeaderFamily::name).collect()
    }

    fn schema() -> Json {
        <Vec<HeaderFamily>>::schema()
    }
}

impl Setting for HeaderFamily {
    fn expected() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> Json {
        self.name().into()
    }

    fn schema() -> Json {
        json!({ "enum": Self::ALL.map(Self::name) })
    }
}

impl Choice for CheckAuth {
    const ALL: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("token", Self::Token), ("mtls", Self::Mtls)];
}

impl Choice for LogFormat {
    const ALL: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

impl Choice for LogLevel {
    const ALL: &'static [(&'static str, Self)] = &[
        (Self::Error.name(), Self::Error),
        (Self::Warn.name(), Self::Warn),
        (Self::Info.name(), Self::Info),
        (Self::Debug.name(), Self::Debug),
        (Self::Trace.name(), Self::Trace),
    ];
}

impl Choice for DenyStatus {
    const ALL: &'static [(&'static str, Self)] =
        &[("429", Self::TooManyRequests), ("403", Self::Forbidden)];
}

impl Choice for Unmatched {
    const ALL: &'static [(&'static str, Self)] = &[("allow", Self::Allow), ("deny", Self::Deny)];
}

impl Choice for PathMatching {
    const ALL: &'static [(&'static str, Self)] =
        &[("strict", Self::Strict), ("lenient", Self::Lenient)];
}

impl Choice for PathCase {
    const ALL: &'static [(&'static str, Self)] =
        &[("sensitive", Self::Sensitive), ("insensitive", Self::Insensitive)];
}

impl Choice for RequestHeaders {
    const ALL: &'static [(&'static str, Self)] =
        &[("any", Self::Any), ("x-original", Self::Original), ("x-forwarded", Self::Forwarded)];
}
