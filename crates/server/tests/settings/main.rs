//! Settings: their precedence, the message of each invalid value, and secrets, which are never shown.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;
use tollgate::http::PathMatching;
use tollgate::identity::{ApiKeys, ForwardingHeader, TokenKeys, Unverified};
use tollgate::rules::parse_time;
use tollgate::{PathCase, Unmatched};
use tollgate_server::settings::{
    Audit, ByteSize, CheckAuth, DenyStatus, Effective, FLAGGED, LogFormat, LogLevel, Otlp, Paths,
    RefusedSettings, RequestHeaders, Secret, Settings, VersionNotice, flag, variable,
};

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A folder for one case, with its settings file in it.
struct Case {
    folder: TempDir,
    flags: Vec<(&'static str, String)>,
    environment: BTreeMap<String, String>,
    has_file: bool,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, flags: Vec::new(), environment: BTreeMap::new(), has_file: false }
    }

    fn file(mut self, text: &str) -> Self {
        self.write("tollgate.yaml", text);
        self.has_file = true;
        self
    }

    fn flag(mut self, name: &'static str, value: &str) -> Self {
        self.flags.push((name, value.to_owned()));
        self
    }

    fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    fn load(&self) -> Result<Effective, RefusedSettings> {
        let file = self.has_file.then(|| self.folder.path().join("tollgate.yaml"));
        Settings::load(&self.flags, &self.environment, file.as_deref())
    }

    fn settings(&self) -> Settings {
        self.load().unwrap_or_else(|problems| panic!("{problems}")).settings
    }

    /// The problems, one line each, without the folder.
    fn problems(&self) -> String {
        let problems = self.load().map(|_| "nothing").expect_err("no problem").to_string();
        problems.replace(&format!("{}/", self.folder.path().display()), "")
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let layers: [fn(Case) -> Case; 3] = [
        |case| case.file("memory: 1MiB\nlog: json\n"),
        |case| case.environment("TOLLGATE_MEMORY", "2MiB"),
        |case| case.flag("memory", "3MiB"),
    ];
    for (given, expected, origin) in [
        ([false, false, false], "256MiB", "default"),
        ([true, false, false], "1MiB", "tollgate.yaml:1:9"),
        ([false, true, false], "2MiB", "env TOLLGATE_MEMORY"),
        ([true, true, false], "2MiB", "env TOLLGATE_MEMORY"),
        ([false, false, true], "3MiB", "flag --memory"),
        ([true, true, true], "3MiB", "flag --memory"),
    ] {
        let mut case = Case::new();
        for (layer, is_given) in layers.iter().zip(given) {
            if is_given {
                case = layer(case);
            }
        }
        let effective = case.load().expect("valid settings");
        let entry = effective.entries.iter().find(|entry| entry.name == "memory").expect("it");
        assert_eq!(entry.value, expected, "{given:?}");
        let shown = entry.origin.to_string();
        assert!(shown.ends_with(origin), "{given:?}: {shown}");
        let is_json = effective.settings.log == LogFormat::Json;
        assert_eq!(is_json, given[0], "other settings of the file hold too: {given:?}");
    }
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    let case = Case::new().environment("TOLLGATE_HTTP", "").environment("TOLLGATE_CHECK_TOKEN", "");
    let settings = case.settings();
    assert_eq!(settings.http, address("127.0.0.1:8080"));
    assert!(settings.check_token.is_none());
}

#[test]
fn the_previous_secret_of_the_fleet_is_another_one() {
    let secret = "0123456789abcdef0123456789abcdef";
    let case = || Case::new().environment("TOLLGATE_FLEET_SECRET", secret);
    let check = |previous: &str, expected: &str| {
        let problems = case().environment("TOLLGATE_FLEET_PREVIOUS_SECRET", previous).problems();
        assert!(problems.contains(expected), "{problems}");
        assert!(!problems.contains(secret), "{problems}");
    };
    check(secret, "expected the one before it");
    check("short", "at least 32 characters");
    let other = "fedcba9876543210fedcba9876543210";
    let settings = case().environment("TOLLGATE_FLEET_PREVIOUS_SECRET", other).settings();
    assert!(settings.fleet_previous_secret.is_some_and(|it| it.expose() == other));
}

#[test]
fn every_setting_can_be_written() {
    let case = Case::new();
    let secret = case.write("jwt.secret", "0123456789abcdef0123456789abcdef\n");
    let token = case.write("token", "let-me-in-let-me-in\n");
    let previous = case.write("previous.secret", "fedcba9876543210fedcba9876543210\n");
    let case = case.file(&format!(
        "http: 0.0.0.0:9000
admin: 127.0.0.1:9001
grpc: 127.0.0.1:9002
hosts: [tollgate.internal]
dashboard: false
recent_traffic: 8MiB
catalog: postgres://tollgate@db.example/tollgate
catalog_copy: copy.db
envoy_config: ratelimit
envoy: {{merge_domains: true, refusal_body: true, headers: [draft-6]}}
store: 'memory:'
memory: 1GiB
store_failure: {{deadline: 20ms, failures: 3, probe_after: 2s, drift_warning: 500ms}}
carry_over: 48h
deny_cache: 100ms
check_auth: token
check_token_file: {token}
fleet: {{secret_file: {secret}, previous_secret_file: {previous}}}
headers: [x-ratelimit-delta, draft-7]
log: json
log_level: debug
otlp: {{endpoint: \"http://127.0.0.1:4317\", sample: 0.01, service_name: limiter}}
tls: {{certificate: cert.pem, key: key.pem, client_ca: ca.pem}}
identity:
  api_keys: known
  api_key_header: X-Key
  known_api_keys: [{{key: \"{DIGEST}\", owner: alice, tier: pro, tenant: null}}]
  trusted_proxies: [10.0.0.0/8, 192.0.2.1]
  client_ip_header: forwarded
  trusted_hops: 2
  ipv6_prefix: 56
  tenant_header: x-tenant
  tier_header: x-tier
  unverified: refuse
  jwt: {{algorithms: [HS256], secret_file: {secret}, issuer: me, audience: [a, b],
        leeway_seconds: 5, user_claim: uid, tenant_claim: org, tier_claim: plan}}
upstream: [http://10.0.0.1:3000, https://backend.example]
routes: [{{host: '*.example.com', path: /v1/*, upstream: h2c://10.0.0.2:50051}}]
gateway: {{address: 127.0.0.1:9003, host: upstream, ca: upstreams.pem, rewrite_headers: trusted, connect_timeout: 1s,
          response_timeout: 2s, body_timeout: 3s, idle_timeout: 4s, upgrade_timeout: 5s, requests: 6,
          upgrades: 7, requests_per_client: 3, upgrades_per_client: 4, upload_timeout: 2h, min_body_rate: 1KiB}}
refusal: {{status: 503, body: 'wait {{retry_after}} s', content_type: text/plain}}
unmatched: deny
authorize: {{deny_status: 403, request_headers: x-forwarded}}
paths: {{mode: lenient, case: insensitive}}
api: {{v1: {{deprecated_at: '2027-01-31T00:00:00Z', sunset_at: '2027-07-31T00:00:00Z', link: 'https://e.example/v2'}}}}
limits: {{check_calls_per_second: 0, admin_reads_per_minute: 1, admin_writes_per_minute: 2,
         tenant_write_bytes_per_hour: 10KiB,
         body_bytes: 2MiB, document_bytes: 3MiB, tenant_document_bytes: 4KiB, log_bytes: 7MiB, rule_bytes: 5KiB,
         globs_per_rule: 6, rules_per_tenant: 7, rule_bytes_per_tenant: 8KiB, entries_per_tenant: 9,
         batch_size: 3, header_count: 40, header_bytes: 8KiB, connections: 5,
         header_timeout: 6s, idle_timeout: 7m, request_timeout: 800ms, shutdown_delay: 5s,
         shutdown_grace: 0s}}
decisions_kept: 10
audit: {{decisions: off, sample_allowed: 0.5, rows_per_second: 7, keep_days: 8, max_bytes: 9MiB}}
idempotency: {{keys: 20, seconds: 30}}
",
        token = token.display(),
        secret = secret.display(),
        previous = previous.display()
    ));
    let effective = case.load().unwrap_or_else(|problems| panic!("{problems}"));
    let settings = &effective.settings;
    assert_eq!(settings.http, address("0.0.0.0:9000"));
    assert_eq!(settings.admin, Some(address("127.0.0.1:9001")));
    assert_eq!(settings.grpc.tcp(), Some(address("127.0.0.1:9002")));
    assert_eq!(settings.hosts, ["tollgate.internal"]);
    assert_eq!(settings.memory.to_usize(), 1 << 30);
    assert_eq!(settings.remote.deadline, Duration::from_millis(20));
    assert_eq!((settings.remote.failures, settings.remote.deny_cache.get()), (3, 100_000));
    assert_eq!(settings.remote.carry_over, Duration::from_hours(48));
    assert!(!settings.dashboard && settings.recent_traffic == ByteSize::mebibytes(8));
    assert_eq!(settings.remote.probe_after, Duration::from_secs(2));
    assert_eq!(settings.remote.drift, Duration::from_millis(500));
    assert_eq!(settings.check_auth, CheckAuth::Token);
    assert_eq!(settings.check_token.as_ref().map(Secret::expose), Some("let-me-in-let-me-in"));
    assert_eq!(settings.log_level, LogLevel::Debug);
    let (endpoint, service_name) = (Some("http://127.0.0.1:4317".into()), "limiter".into());
    assert_eq!(settings.otlp, Otlp { endpoint, sample: 0.01, service_name });
    assert_eq!(settings.deny_status, DenyStatus::Forbidden);
    assert_eq!(settings.unmatched, Unmatched::Deny);
    assert_eq!(settings.request_headers, RequestHeaders::Forwarded);
    let paths = Paths { mode: PathMatching::Lenient, case: PathCase::Insensitive };
    assert_eq!(settings.paths, paths);
    let (deprecated_at, sunset_at) =
        (parse_time("2027-01-31T00:00:00Z"), parse_time("2027-07-31T00:00:00Z"));
    let link = Some("https://e.example/v2".to_owned());
    assert_eq!(settings.api_v1, VersionNotice { deprecated_at, sunset_at, link });
    assert_eq!(settings.limits.shutdown_delay, Duration::from_secs(5));
    assert_eq!(settings.limits.request_timeout, Duration::from_millis(800));
    assert_eq!(settings.limits.idle_timeout, Duration::from_mins(7));
    assert_eq!(settings.idempotency.kept_for, Duration::from_secs(30));
    let gateway = settings.gateway.as_ref().expect("a gateway");
    assert_eq!(gateway.address, address("127.0.0.1:9003"));
    assert_eq!((gateway.config.upstreams.len(), gateway.config.routes.len()), (2, 1));
    assert_eq!((gateway.config.requests, gateway.config.upgrades), (6, 7));
    assert_eq!(gateway.config.requests_per_client, Some(3));
    assert_eq!(gateway.config.upgrades_per_client, Some(4));
    assert_eq!(gateway.config.min_body_rate, 1_024);
    assert!(gateway.config.keeps_rewrites);
    assert_eq!(gateway.config.timeouts.upload, Duration::from_hours(2));
    assert_eq!(gateway.config.timeouts.body, Duration::from_secs(3));
    assert!(gateway.config.is_encrypted && gateway.config.trusted_proxies.len() == 2);
    assert!(settings.catalog.is_shared() && settings.uses_catalog());
    assert!(settings.envoy.merge_domains && settings.envoy.refusal_body);
    assert_eq!(settings.envoy.headers.iter().count(), 1);
    assert_eq!(settings.catalog_copy, Some("copy.db".into()));
    let max_bytes = ByteSize::mebibytes(9);
    let audit = Audit {
        decisions: false,
        sample_allowed: 0.5,
        rows_per_second: 7,
        keep_days: 8,
        max_bytes,
    };
    assert_eq!(settings.audit, audit);
    let identity = &settings.identity;
    assert!(matches!(&identity.api_key.accept, ApiKeys::Known(keys)
        if keys.len() == 1 && keys[0].owner.as_deref() == Some("alice")));
    assert_eq!(identity.unverified, Unverified::Refuse);
    assert_eq!(identity.client_ip.header, ForwardingHeader::Forwarded);
    assert_eq!(identity.client_ip.trusted_proxies.len(), 2);
    let jwt = identity.jwt.as_ref().expect("tokens");
    assert!(matches!(&jwt.keys, TokenKeys::Secret(secret) if secret.expose().len() == 32));
    assert_eq!(jwt.audiences, ["a", "b"]);
    assert_eq!((jwt.user_claim.as_str(), jwt.leeway), ("uid", Duration::from_secs(5)));
    let untouched: Vec<&str> = effective
        .entries
        .iter()
        .filter(|entry| entry.origin.to_string() == "default")
        .map(|entry| entry.name)
        .collect();
    let others = [
        "rules",
        "admin_token_file",
        "admin_token",
        "identity.jwt.public_key_file",
        "identity.jwt.jwks_file",
        "identity.jwt.jwks_url",
        "identity.jwt.jwks_refresh_seconds",
    ];
    assert_eq!(untouched, others, "a setting that this file leaves out is not tested");
}

#[test]
fn json_is_understood_as_well() {
    let case = Case::new().file(r#"{"http": "[::1]:0", "limits": {"connections": 7}}"#);
    assert_eq!(case.settings().http, address("[::1]:0"));
    assert_eq!(case.settings().limits.connections, 7);
    for empty in ["", "# nothing yet\n", "limits:\n"] {
        assert_eq!(Case::new().file(empty).settings().limits.connections, 10_000, "{empty:?}");
    }
}

/// Each invalid value gets one line, which says what is expected.
#[test]
fn invalid_values_are_refused_with_what_is_expected() {
    for (file, expected) in [
        (
            "http: here",
            "http (tollgate.yaml:1:7): expected an address with a port like 127.0.0.1:8080 or \
             [::1]:8080, found \"here\"",
        ),
        (
            "http:",
            "http (tollgate.yaml:1:5): expected an address with a port like 127.0.0.1:8080 or \
             [::1]:8080, found nothing",
        ),
        (
            "memory: 1GB",
            "memory (tollgate.yaml:1:9): expected a size like 64KiB, 256MiB or 1GiB, found \"1GB\"",
        ),
        ("memory: 1KiB", "memory (tollgate.yaml:1:9): 1KiB is not between 1MiB and 1048576GiB"),
        (
            "store: mysql://:secret@db",
            "store (tollgate.yaml:1:8): write memory:, redis://host:port, \
             redis+sentinel://hosts/name-of-the-master, redis+cluster://hosts or \
             postgres://user@host/database",
        ),
        (
            "check_auth: password",
            "check_auth (tollgate.yaml:1:13): expected none, token or mtls, found \"password\"",
        ),
        (
            "check_auth: token",
            "check_auth (tollgate.yaml:1:13): there is no token to ask for; set the environment \
             variable TOLLGATE_CHECK_TOKEN, or name a file in check_token_file",
        ),
        (
            "check_auth: mtls",
            "check_auth (tollgate.yaml:1:13): client certificates need an authority to check them \
             by; name tls.client_ca, with tls.certificate and tls.key",
        ),
        (
            "check_token: abc",
            "check_token (tollgate.yaml:1:1): a secret does not belong in the settings file; set \
             the environment variable TOLLGATE_CHECK_TOKEN, or name a file that holds nothing else \
             in check_token_file",
        ),
        (
            "admin: 127.0.0.1:8080",
            "admin (tollgate.yaml:1:8): this is where the check API listens; choose another port, \
             or leave it out",
        ),
        (
            "headers: [draft-11, draft-12]",
            "headers (tollgate.yaml:1:21): expected x-ratelimit, x-ratelimit-delta, draft-11, \
             draft-7, draft-6, found \"draft-12\"",
        ),
        (
            "headers: [draft-11, draft-7]",
            "headers (tollgate.yaml:1:10): draft-11 and draft-7 use the same header fields; \
             choose one of them",
        ),
        (
            "log_level: loud",
            "log_level (tollgate.yaml:1:12): expected error, warn, info, debug or trace, found \
             \"loud\"",
        ),
        (
            "audit: {decisions: maybe}",
            "audit.decisions (tollgate.yaml:1:20): expected on, off, true or false, found \"maybe\"",
        ),
        (
            "{rules: policy.yaml, audit: {decisions: on}}",
            "audit.decisions (tollgate.yaml:1:41): decisions are kept in a catalog, and there is \
             none; name one in catalog, and no rules file",
        ),
        (
            "audit: {sample_allowed: 2}",
            "audit.sample_allowed (tollgate.yaml:1:25): expected a number from 0 to 1, found \"2\"",
        ),
        (
            "audit: {keep_days: 0}",
            "audit.keep_days (tollgate.yaml:1:20): 0 is not between 1 and 36500",
        ),
        (
            "audit: {max_bytes: 1MiB}",
            "audit.max_bytes (tollgate.yaml:1:20): at least 4MiB are needed",
        ),
        (
            "otlp: {endpoint: 127.0.0.1:4317}",
            "otlp.endpoint (tollgate.yaml:1:18): expected the URL of a collector that takes OTLP \
             over gRPC, like http://127.0.0.1:4317, found \"127.0.0.1:4317\"",
        ),
        (
            "otlp: {endpoint: 'http://127.0.0.1:4318/v1/traces'}",
            "otlp.endpoint (tollgate.yaml:1:18): expected the URL of a collector that takes OTLP \
             over gRPC, like http://127.0.0.1:4317, found \"http://127.0.0.1:4318/v1/traces\"",
        ),
        (
            "upstream: 'http://me:hunter2@backend'",
            "upstream (tollgate.yaml:1:11): expected a list, each item a URL without a path, like \
             http://10.0.0.1:3000, https://backend.example or h2c://10.0.0.1:50051, found text with \
             an @, not shown since it may contain a password",
        ),
        (
            "upstream: ['http://a', 'http://me:hunter2@backend']",
            "upstream (tollgate.yaml:1:24): expected a URL without a path, like \
             http://10.0.0.1:3000, https://backend.example or h2c://10.0.0.1:50051, found text with \
             an @, not shown since it may contain a password",
        ),
        (
            "otlp: {endpoint: 'https://me:hunter2@collector'}",
            "otlp.endpoint (tollgate.yaml:1:18): a secret does not belong here; set the \
             environment variable OTEL_EXPORTER_OTLP_HEADERS, and leave out what is before the @",
        ),
        (
            "otlp: {sample: 10}",
            "otlp.sample (tollgate.yaml:1:16): expected a number from 0 to 1, found \"10\"",
        ),
        (
            "otlp: {sample: nan}",
            "otlp.sample (tollgate.yaml:1:16): expected a number from 0 to 1, found \"nan\"",
        ),
        (
            "tls: {certificate: a.pem}",
            "tls.certificate (tollgate.yaml:1:20): a certificate needs its key; name it in tls.key",
        ),
        (
            "tls: {key: a.pem}",
            "tls.key (tollgate.yaml:1:12): a key needs its certificate; name it in tls.certificate",
        ),
        (
            "tls: {client_ca: a.pem}",
            "tls.client_ca (tollgate.yaml:1:18): client certificates need TLS; name \
             tls.certificate and tls.key too",
        ),
        (
            "refusal: {status: 200}",
            "refusal.status (tollgate.yaml:1:19): 200 is not between 400 and 599",
        ),
        (
            "refusal: {body: 'wait {seconds} s'}",
            "refusal.body (tollgate.yaml:1:17): there is no {seconds}; there are {rule_id}, {limit}, {remaining}, \
             {reset_at}, {retry_after}, {decision_id}, {status}, {code}, {message}",
        ),
        (
            "refusal: {body: 'wait {retry_after} s'}",
            "refusal.body (tollgate.yaml:1:17): filled in, it is no JSON: expected value at line 1 column 1; correct \
             it, or set another content type, like text/plain",
        ),
        (
            "refusal: {content_type: text/plain}",
            "refusal.content_type (tollgate.yaml:1:25): it is for a text of yours in refusal.body; problem and flat \
             have theirs",
        ),
        (
            "authorize: {deny_status: 500}",
            "authorize.deny_status (tollgate.yaml:1:26): expected 429 or 403, found \"500\"",
        ),
        (
            "limits: {header_timeout: 10}",
            "limits.header_timeout (tollgate.yaml:1:26): expected a time like 500ms, 10s or 2m, \
             found \"10\"",
        ),
        (
            "limits: {connections: 0}",
            "limits.connections (tollgate.yaml:1:23): 0 is not between 1 and 1000000",
        ),
        (
            "limits: {connections: -1}",
            "limits.connections (tollgate.yaml:1:23): expected a whole number, found \"-1\"",
        ),
        (
            "limits: {header_bytes: 1KiB}",
            "limits.header_bytes (tollgate.yaml:1:24): 1KiB is not between 8KiB and 16MiB",
        ),
        ("limits: 5", "limits (tollgate.yaml:1:1): this is a group of settings, not a setting"),
        (
            "limits: {header_timeot: 5s}",
            "limits.header_timeot (tollgate.yaml:1:10): there is no such setting; did you mean \
             limits.header_timeout?",
        ),
        (
            "batch_size: 5",
            "batch_size (tollgate.yaml:1:1): there is no such setting; did you mean \
             limits.batch_size?",
        ),
        ("websocket: 127.0.0.1:8081", "websocket (tollgate.yaml:1:1): there is no such setting"),
        (
            "identity: {trusted_proxies: [10.0.0.0/8, proxy]}",
            "identity.trusted_proxies (tollgate.yaml:1:42): expected a network like 10.0.0.0/8 or \
             an address, found \"proxy\"",
        ),
        (
            "identity: {ipv6_prefix: 65}",
            "identity.ipv6_prefix (tollgate.yaml:1:25): expected 48, 56, 64 or 128 bits, found 65",
        ),
        (
            "identity: {api_key_header: 'a b'}",
            "identity.api_key_header (tollgate.yaml:1:28): expected the name of a header like \
             x-api-key, found \"a b\"",
        ),
        (
            "identity: {known_api_keys: [hunter2]}",
            "identity.known_api_keys (tollgate.yaml:1:29): expected a map like {key: \
             \"sha256:...\", owner: alice, tier: pro, tenant: acme}",
        ),
        (
            "identity: {known_api_keys: [{key: hunter2}]}",
            "identity.known_api_keys (tollgate.yaml:1:35): a key is written as its digest, \
             sha256: and 64 hexadecimal digits; `printf %s KEY | sha256sum` prints them",
        ),
        (
            "identity: {known_api_keys: [{owner: me}]}",
            "identity.known_api_keys (tollgate.yaml:1:29): a known key needs its key, as \
             sha256:...",
        ),
        (
            "identity: {tenant_header: x-tenant, trusted_proxies: []}",
            "identity.tenant_header (tollgate.yaml:1:27): headers are believed from trusted \
             proxies only, and there are none; name them in identity.trusted_proxies",
        ),
        (
            "identity: {jwt: {issuer: me}}",
            "identity.jwt: there are no keys to verify tokens; name one of secret_file, \
             public_key_file, jwks_file and jwks_url, or set TOLLGATE_JWT_SECRET",
        ),
        (
            "identity: {jwt: {jwks_file: a, jwks_url: 'https://b/c'}}",
            "identity.jwt: keys come from several places; name one of secret_file, \
             public_key_file, jwks_file and jwks_url, or set TOLLGATE_JWT_SECRET",
        ),
        (
            "identity: {jwt: {jwks_file: a, algorithms: [none]}}",
            "identity.jwt.algorithms (tollgate.yaml:1:45): expected HS256, RS256, ES256 or EdDSA, \
             found \"none\"",
        ),
        (
            "identity: {jwt: {jwks_url: issuer}}",
            "identity.jwt.jwks_url (tollgate.yaml:1:28): expected a URL like \
             https://issuer.example/.well-known/jwks.json, found \"issuer\"",
        ),
        (
            "identity: {jwt: {public_key_file: /missing.pem}}",
            "identity.jwt.public_key_file (tollgate.yaml:1:35): cannot read /missing.pem: No such \
             file or directory (os error 2)",
        ),
        (
            "admin_token_file: /missing",
            "admin_token_file (tollgate.yaml:1:19): cannot read /missing: No such file or \
             directory (os error 2)",
        ),
        (
            "limits.connections: 5\nlimits: {connections: 6}",
            "limits.connections (tollgate.yaml:2:10): this setting is there twice",
        ),
        ("[1, 2]", "tollgate.yaml:1:1: expected settings, one `name: value` a line"),
    ] {
        let case = Case::new().file(file);
        assert!(case.load().is_err(), "{file}");
        assert_eq!(case.problems(), expected, "{file}");
    }
}

/// A token in the environment beside a file in the settings file used to be an error.
#[test]
fn a_token_in_the_environment_wins_over_a_file_in_the_settings_file() {
    let check = |case: Case, expected: &str| {
        case.write("token", "of-the-settings-file");
        case.write("flagged", "of-a-file-in-a-flag");
        let token = case.settings().admin_token.expect("a token");
        assert_eq!(Secret::expose(&token), expected);
    };
    let case = || {
        let case = Case::new();
        let file = case.folder.path().join("token");
        case.file(&format!("admin_token_file: {}", file.display()))
    };
    let flagged = |case: Case| {
        let file = case.folder.path().join("flagged").display().to_string();
        case.flag("admin_token_file", &file)
    };
    let variable = |case: Case| case.environment("TOLLGATE_ADMIN_TOKEN", "of-the-environment");
    check(case(), "of-the-settings-file");
    check(variable(case()), "of-the-environment");
    check(flagged(variable(case())), "of-a-file-in-a-flag");
    check(flagged(case()), "of-a-file-in-a-flag");
    // The file is not even read.
    let missing = Case::new().file("admin_token_file: /nowhere");
    assert!(variable(missing).settings().admin_token.is_some());
    // Both in the environment: none of them is above the other.
    let both = variable(Case::new()).environment("TOLLGATE_ADMIN_TOKEN_FILE", "/nowhere");
    let problem = "admin_token_file (env TOLLGATE_ADMIN_TOKEN_FILE): TOLLGATE_ADMIN_TOKEN is set too; keep one of them";
    assert_eq!(both.problems(), problem);
}

#[test]
fn an_open_port_needs_a_choice_of_check_auth() {
    let open = |case: Case| case.flag("http", "0.0.0.0:8080");
    let expected = "check_auth: 0.0.0.0:8080 can be reached from other machines, so choose how \
                    callers authenticate: token, mtls, or none if every client that reaches the \
                    port may check";
    assert_eq!(open(Case::new()).problems(), expected);
    let chosen = open(Case::new()).flag("check_auth", "none").settings();
    assert_eq!(chosen.check_auth, CheckAuth::None);
    assert_eq!(chosen.admin, Some(address("127.0.0.1:8082")), "the admin API stays here");
    for local in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        let settings = Case::new().flag("http", local).settings();
        assert_eq!((settings.check_auth, settings.admin), (CheckAuth::None, None), "{local}");
    }
    let with_token = Case::new().environment("TOLLGATE_CHECK_TOKEN", "let-me-in-let-me-in");
    let expected = "check_auth: there is a check token, but no caller needs it; choose token \
                    or none";
    assert_eq!(with_token.problems(), expected);
    assert_eq!(with_token.flag("check_auth", "token").settings().check_auth, CheckAuth::Token);
}

#[test]
fn tokens_are_long_and_have_one_use_each() {
    const LONG: &str = "0123456789abcdef";
    const OTHER: &str = "fedcba9876543210";
    let check = |auth: &str, check_token: &str, admin_token: &str, expected: &[&str]| {
        let case = Case::new()
            .file("tls: {certificate: cert.pem, key: key.pem, client_ca: ca.pem}")
            .flag("check_auth", auth)
            .environment("TOLLGATE_CHECK_TOKEN", check_token)
            .environment("TOLLGATE_ADMIN_TOKEN", admin_token);
        match case.load() {
            Ok(_) => assert!(expected.is_empty(), "{auth} {check_token} {admin_token}"),
            Err(problems) => {
                let problems = problems.to_string();
                assert_eq!(problems.lines().collect::<Vec<_>>(), expected);
            }
        }
    };
    let short_check = "check_token (env TOLLGATE_CHECK_TOKEN): a token needs at least 16 \
                       characters, so that it cannot be guessed; make one with openssl rand -hex \
                       32";
    let short_admin = short_check.replace("check", "admin").replace("CHECK", "ADMIN");
    let equal = "admin_token (env TOLLGATE_ADMIN_TOKEN): this is the check token too, so every \
                 caller of the check API could change everything; choose another";
    let leftover = "check_token (env TOLLGATE_CHECK_TOKEN): with check_auth mtls, this token would \
                    open the check API to clients without a certificate; remove it, or choose \
                    check_auth token";
    check("token", LONG, OTHER, &[]);
    check("token", LONG, "", &[]);
    check("none", LONG, OTHER, &[]);
    check("mtls", "", OTHER, &[]);
    check("token", &LONG[1..], OTHER, &[short_check]);
    check("none", "", &OTHER[1..], &[&short_admin]);
    check("token", "hush", "hush", &[short_check, &short_admin, equal]);
    check("token", LONG, LONG, &[equal]);
    check("mtls", LONG, OTHER, &[leftover]);
}

#[test]
fn all_problems_are_reported_at_once() {
    let case = Case::new()
        .file("memory: much\nlogs: text\nlimits:\n  connections: none\n")
        .environment("TOLLGATE_LOG", "xml")
        .environment("TOLLGATE_CHECK_AUHT", "none")
        .environment("TOLLGATE_PORT", "tcp://10.0.0.1:8080")
        .environment("TOLLGATE_DECISIONS_KEPT", "1")
        .flag("http", "8080");
    let problems = case.problems();
    let told: Vec<&str> =
        problems.lines().map(|line| line.split(':').next().unwrap_or_default()).collect();
    let expected = [
        "http (flag --http)",
        "memory (tollgate.yaml",
        "log (env TOLLGATE_LOG)",
        "limits.connections (tollgate.yaml",
        "logs (tollgate.yaml",
        "TOLLGATE_CHECK_AUHT",
        "TOLLGATE_DECISIONS_KEPT",
    ];
    assert_eq!(told, expected, "{problems}");
    assert!(problems.contains("did you mean TOLLGATE_CHECK_AUTH?"), "{problems}");
    assert!(problems.ends_with("set decisions_kept in the settings file"), "{problems}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = Settings::load(&[], &BTreeMap::new(), Some("missing.yaml".as_ref()));
    let expected = "config: cannot read the settings file missing.yaml: No such file or directory \
                    (os error 2)";
    assert_eq!(missing.map(|_| ()).expect_err("a problem").to_string(), expected);
    for (text, place) in [
        ("http: [1", "tollgate.yaml:"),
        ("a: b: c", "tollgate.yaml:1:"),
        ("log: text\nlog: json\n", "log (tollgate.yaml:2:1)"),
    ] {
        let problems = Case::new().file(text).problems();
        assert!(problems.starts_with(place), "{text:?}: {problems}");
        assert_eq!(problems.lines().count(), 1, "{text:?}: {problems}");
    }
}

#[test]
fn secrets_are_shown_nowhere() {
    const SECRET: &str = "squeamish-ossifrage-0123456789-0123456789";
    let case = Case::new()
        .file("identity: {jwt: {jwks_url: 'https://user:squeamish@issuer/keys?key=squeamish'}}")
        .environment("TOLLGATE_CHECK_TOKEN", SECRET)
        .environment("TOLLGATE_ADMIN_TOKEN", &SECRET[1..])
        .flag("check_auth", "token");
    let effective = case.load().unwrap_or_else(|problems| panic!("{problems}"));
    let shown = format!("{effective:?}");
    assert!(shown.contains("***") && !shown.contains("queamish"), "{shown}");
    let tokens = [effective.settings.check_token, effective.settings.admin_token];
    let exposed = tokens.each_ref().map(|token| token.as_ref().map(Secret::expose));
    assert_eq!(exposed, [Some(SECRET), Some(&SECRET[1..])]);

    let wrong = Case::new()
        .file(&format!(
            "check_token: {SECRET}\nstore: mysql://:{SECRET}@db\nidentity: {{known_api_keys: \
             [{{key: {SECRET}}}]}}\n"
        ))
        .environment("TOLLGATE_ADMIN_TOKEN", "squeamish ossifrage");
    let problems = wrong.load().map(|_| ()).expect_err("problems");
    assert_eq!(problems.0.len(), 4, "{problems}");
    let shown = format!("{problems} {problems:?}");
    assert!(!shown.contains("squeamish"), "{shown}");
}

#[test]
fn flags_and_variables_are_named_after_their_settings() {
    assert_eq!(flag("tls.client_ca"), "--tls-client-ca");
    assert_eq!(variable("tls.client_ca"), "TOLLGATE_TLS_CLIENT_CA");
    let entries = Case::new().load().expect("defaults").entries;
    for name in FLAGGED {
        assert!(entries.iter().any(|entry| entry.name == name), "{name} is no setting");
    }
}

proptest! {
    #[test]
    fn no_file_panics(text in "[a-z:{}\\[\\]#&*!|>'\"%@`\\-?, \n\t0-9.]{0,80}") {
        let _ = Case::new().file(&text).load();
    }

    #[test]
    fn no_value_panics(value in any::<String>(), at in 0..FLAGGED.len()) {
        let _ = Case::new().flag(FLAGGED[at], &value).load();
    }
}
