//! The descriptions of settings, which editors show by the schema.

/// The settings in the order of docs/serve.md, each with one sentence.
const SETTINGS: &[(&str, &str)] = &[
    ("http", "Where the check API listens; port 0 takes any free one."),
    ("admin", "Where the admin API listens, if not with the check API."),
    ("hosts", "Names of the dashboard, and of the check API without a token, besides localhost."),
    ("dashboard", "Whether the listener of the admin API has the dashboard."),
    ("grpc", "Where gRPC and Envoy's rate limit service listen; unix:PATH is a Unix socket."),
    ("rules", "The policy file, instead of a catalog."),
    ("catalog", "The database of rules, clients and tokens; sqlite:tollgate.db if not set."),
    ("catalog_copy", "The file that a node starts from while PostgreSQL is unavailable."),
    ("envoy_config", "A directory with files of envoyproxy/ratelimit."),
    ("envoy.merge_domains", "Whether files with the same domain are one domain."),
    ("envoy.refusal_body", "Whether refusals to Envoy have a body, as refusal.body says."),
    ("envoy.headers", "The families of header fields in responses to Envoy; none if not set."),
    ("store", "Where counters are."),
    ("store_failure.deadline", "How long a check waits for a shared store, 1ms to 1m."),
    ("store_failure.failures", "Consecutive failures that open the circuit breaker of a server."),
    ("store_failure.probe_after", "How long the circuit breaker stays open, 10ms to 1h."),
    ("store_failure.drift_warning", "The clock difference to a store that is logged, 1ms to 24h."),
    ("carry_over", "How long counters of earlier versions in Redis are carried over; 0s for not."),
    (
        "deny_cache",
        "The longest time a refusal of a shared store is cached, up to 1s; 0s for never.",
    ),
    ("memory", "The most memory that counters may take, from 1MiB."),
    ("check_auth", "How callers of the check API authenticate; none on loopback if not set."),
    ("check_token_file", "A file with the token for the check API."),
    ("admin_token_file", "A file with the token for the admin API."),
    ("fleet.secret_file", "A file with the secret that all nodes of a fleet have."),
    (
        "fleet.previous_secret_file",
        "A file with the secret that the fleet had before, while it is changed node by node.",
    ),
    ("headers", "The families of header fields in responses; an empty list for none."),
    ("log", "The format of log lines."),
    ("log_level", "The lowest level that is logged."),
    ("otlp.endpoint", "The collector that traces are sent to."),
    ("otlp.sample", "The share of requests that are traced if their callers have not decided."),
    ("otlp.service_name", "The name of this server in traces."),
    ("tls.certificate", "The certificate of this server with its chain, in PEM format."),
    ("tls.key", "The private key of the certificate, in PEM format."),
    ("tls.client_ca", "The authorities whose client certificates are accepted, in PEM format."),
    ("refusal.status", "The status of refusals by a limit or a ban, at gateway and forward-auth."),
    ("refusal.body", "Their body: problem, flat, or a text with places for figures."),
    ("refusal.content_type", "The content type of such a text; application/json if not set."),
    ("unmatched", "What happens to requests that no rule applies to."),
    ("authorize.deny_status", "The status of a refusal in forward-auth; 403 for nginx."),
    ("authorize.request_headers", "The headers that describe the request in forward-auth."),
    ("paths.mode", "Whether the gateway and forward-auth refuse ambiguous paths."),
    ("paths.case", "Whether capital letters make another path."),
    ("decisions_kept", "How many allowed and as many refused decisions can be explained."),
    (
        "recent_traffic",
        "The memory for recent requests, which previews of changed rules replay, up to 4GiB; 0 for none.",
    ),
    ("audit.decisions", "Whether decisions are kept; on with a catalog if not set."),
    ("audit.sample_allowed", "The share of allowed requests that is kept; all others are."),
    ("audit.rows_per_second", "The most decisions that a node writes in a second."),
    ("audit.keep_days", "How many days decisions and changes are kept."),
    ("audit.max_bytes", "The most space that the log of decisions takes, from 4MiB."),
    ("idempotency.keys", "The most responses kept for repeated calls."),
    ("idempotency.seconds", "How long responses are kept for repeated calls."),
    ("identity.trusted_proxies", "Networks of proxies whose headers are trusted."),
    ("identity.client_ip_header", "The header in which proxies send the client's address."),
    ("identity.trusted_hops", "Take the address so many places from the right."),
    ("identity.ipv6_prefix", "How much of an IPv6 address is a client: 48, 56, 64 or 128 bits."),
    ("identity.api_key_header", "The header with the API key."),
    ("identity.api_keys", "Which API keys count."),
    ("identity.known_api_keys", "The known API keys, by their digests."),
    ("identity.tenant_header", "The header in which trusted proxies send the tenant."),
    ("identity.tier_header", "The header in which trusted proxies send the tier."),
    ("identity.unverified", "What happens to tokens and API keys that cannot be verified."),
    ("identity.jwt.secret_file", "A file with the secret of HS256 tokens, at least 32 bytes."),
    ("identity.jwt.public_key_file", "A file with a public key, in PEM format."),
    ("identity.jwt.jwks_file", "A file with a set of public keys, read at start."),
    ("identity.jwt.jwks_url", "The URL of a set of public keys."),
    ("identity.jwt.jwks_refresh_seconds", "How old keys of a URL may become."),
    ("identity.jwt.algorithms", "The algorithms of accepted tokens; those of the keys if empty."),
    ("identity.jwt.issuer", "What iss must be; any if not set."),
    ("identity.jwt.audience", "Names, one of which must be in aud; any if empty."),
    ("identity.jwt.leeway_seconds", "How far clocks may differ."),
    ("identity.jwt.user_claim", "The claim with the user."),
    ("identity.jwt.tenant_claim", "The claim with the tenant."),
    ("identity.jwt.tier_claim", "The claim with the tier."),
    ("upstream", "Where requests are forwarded that no route matches; a list of equal upstreams."),
    ("routes", "Where requests are forwarded, by host and path."),
    ("gateway.address", "Where the gateway listens; port 0 takes any free one."),
    ("gateway.host", "The host that upstreams see: that of the client, or their own."),
    ("gateway.ca", "The authorities of upstreams, in PEM format; those of the system if not set."),
    ("gateway.rewrite_headers", "Whether X-Original-URL and X-Rewrite-URL are forwarded."),
    ("gateway.connect_timeout", "The timeout of a connection, TLS included, 10ms to 24h."),
    ("gateway.response_timeout", "The timeout of the head of a response, 10ms to 24h."),
    ("gateway.body_timeout", "The timeout of pauses in a body, 10ms to 24h."),
    ("gateway.idle_timeout", "How long a connection to an upstream is kept alive, 10ms to 24h."),
    ("gateway.upgrade_timeout", "The idle timeout of an upgraded connection, 10ms to 24h."),
    ("gateway.upload_timeout", "The timeout of a whole request body, up to 168h; 0s for none."),
    ("gateway.min_body_rate", "The minimum rate of request bodies in bytes per second; 0 for any."),
    ("gateway.requests", "The most requests at a time to one upstream."),
    ("gateway.requests_per_client", "The most of them from one client; a quarter if not set."),
    ("gateway.upgrades", "The most upgraded connections."),
    ("gateway.upgrades_per_client", "The most of them from one client; a quarter if not set."),
    ("api.v1.deprecated_at", "Since when version 1 of the HTTP API is deprecated, in RFC 3339."),
    ("api.v1.sunset_at", "When version 1 of the HTTP API ends, in RFC 3339."),
    ("api.v1.link", "A page about what to use instead of version 1."),
    ("limits.check_calls_per_second", "Calls of the check API, all callers together; 0 for any."),
    ("limits.admin_reads_per_minute", "Reading calls of the admin API, for each token."),
    ("limits.admin_writes_per_minute", "Changing calls of the admin API, for each token."),
    ("limits.tenant_write_bytes_per_hour", "What all tenant-admins of a tenant write together."),
    ("limits.body_bytes", "The largest body, 1KiB to 1GiB."),
    ("limits.document_bytes", "The largest policy document, 1KiB to 1GiB."),
    ("limits.tenant_document_bytes", "The largest policy document of a tenant-admin."),
    ("limits.log_bytes", "The largest access log that the dashboard replays, 1KiB to 1GiB."),
    ("limits.rule_bytes", "The largest rule in the catalog, as JSON."),
    ("limits.globs_per_rule", "The most globs of a rule in the catalog."),
    ("limits.rules_per_tenant", "The most rules that tenant-admins of a tenant write."),
    ("limits.rule_bytes_per_tenant", "The size of all rules that tenant-admins of a tenant write."),
    ("limits.entries_per_tenant", "The most overrides and list entries of a tenant."),
    ("limits.batch_size", "The most checks in a batch."),
    ("limits.header_count", "The most header fields of a request."),
    ("limits.header_bytes", "The largest head of a request, 8KiB to 16MiB."),
    ("limits.connections", "The most connections, on each listener."),
    ("limits.header_timeout", "The timeout of a request's head and of a TLS handshake."),
    ("limits.idle_timeout", "How long a connection is kept alive without a request."),
    ("limits.request_timeout", "The timeout of a request's body."),
    ("limits.shutdown_delay", "How long traffic is accepted after the signal to end, up to 1h."),
    ("limits.shutdown_grace", "How long requests may take to finish at the end, up to 1h."),
];

/// What the setting of that name is for.
pub fn about(name: &str) -> &'static str {
    let setting = SETTINGS.iter().find(|(known, _)| *known == name);
    setting.map_or("", |(_, about)| about)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value as Json;

    use super::*;
    use crate::settings::Settings;

    fn names(group: &str, schema: &Json, found: &mut BTreeSet<String>) {
        for (key, property) in schema["properties"].as_object().expect("a group") {
            let name = if group.is_empty() { key.clone() } else { format!("{group}.{key}") };
            if property.get("additionalProperties").is_some() {
                names(&name, property, found);
            } else {
                found.insert(name);
            }
        }
    }

    #[test]
    fn every_setting_is_described_and_no_other() {
        let mut found = BTreeSet::new();
        names("", &Settings::schema(), &mut found);
        let described = SETTINGS.iter().map(|(name, _)| (*name).to_owned());
        assert_eq!(found, described.collect());
    }
}
