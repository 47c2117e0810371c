//! A shop whose API is limited: rules, tiers, lists, keys, and the requests of a busy minute.

use serde_json::{Value, json};
use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{JSON, Server, Setup, bearer_admin};
use tollgate_e2e::until;

/// Tests exceed the default limits of the admin API.
pub(crate) const OFTEN: &str =
    "limits: {admin_reads_per_minute: 1000000, check_calls_per_second: 0}";

/// A server with the rules of the shop.
pub(crate) fn open() -> Server {
    open_with("")
}

/// A server with the rules of the shop and more settings.
pub(crate) fn open_with(settings: &str) -> Server {
    let settings = format!("{OFTEN}\naudit: {{sample_allowed: 0.2}}\n{settings}");
    let server = Server::start(&Setup { settings: &settings, ..Setup::default() });
    write(&server, "PUT", "/api/v1/policy?prune=rules", &policy());
    for (name, role) in [("grafana wall", "viewer"), ("night shift", "operator")] {
        token(&server, &json!({"role": role, "name": name}));
    }
    write(
        &server,
        "POST",
        "/api/v1/api-keys",
        &json!({"name": "nightly export", "owner": "acme", "tier": "pro", "tenant": "acme"}),
    );
    server
}

fn policy() -> Value {
    json!({
        "rules": [
            {"rule_id": "login", "name": "Attempts to sign in", "limit": 5, "window": "1m", "algorithm": "sliding_window_log",
             "identifier_type": "ip", "applies_to": {"endpoints": ["/login"], "methods": ["POST"]},
             "on_store_failure": "closed", "penalty": {"after": 40, "within_seconds": 300, "ban_seconds": 900}},
            {"rule_id": "api_burst", "limit": 10, "window": "1s", "burst": 50, "algorithm": "gcra", "identifier_type": "ip"},
            {"rule_id": "per_user", "limit": 1000, "window": "1h", "identifier_type": "user_id"},
            {"rule_id": "exports", "limit": 20, "window": "1d", "identifier_type": "tenant",
             "applies_to": {"endpoints": ["/exports", "/exports/*"]}},
            {"rule_id": "search_shadow", "limit": 30, "window": "1m", "identifier_type": "user_id", "action": "log_only",
             "applies_to": {"endpoints": ["/search"]}},
            {"rule_id": "uploads", "limit": 4, "window": "1s", "algorithm": "gcra", "burst": 8, "identifier_type": "user_id",
             "action": "throttle", "throttle": {"max_delay_ms": 5000}, "applies_to": {"endpoints": ["/uploads"], "methods": ["PUT"]}},
            {"rule_id": "acme_orders", "limit": 200, "window": "1m", "identifier_type": "user_id", "tenant": "acme",
             "applies_to": {"endpoints": ["/orders", "/orders/{id}"]}},
        ],
        "tiers": [{"tier": "free", "default": true}, {"tier": "pro"}],
        "clients": [
            {"identifier_type": "user_id", "identifier": "ann", "tier": "pro"},
            {"identifier_type": "tenant", "identifier": "globex", "tier": "pro"},
        ],
        "overrides": [{"identifier_type": "user_id", "identifier": "ann", "rule_id": "per_user", "limit": 5000}],
        "whitelist": [{"identifier_type": "ip", "identifier": "10.0.0.0/8", "reason": "our own probes"}],
        "blacklist": [{"identifier_type": "ip", "identifier": "198.51.100.99", "reason": "scraper, ticket 4711"}],
    })
}

/// Writes through the admin API.
pub(crate) fn write(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let made = server.ask(method, path, &[JSON, bearer_admin()], &body.to_string());
    assert!(matches!(made.status, 200 | 201), "{path}: {made:?}");
    made.json()
}

/// Makes a token.
pub(crate) fn token(server: &Server, body: &Value) -> String {
    let made = write(server, "POST", "/api/v1/tokens", body);
    made["token"].as_str().expect("a token").to_owned()
}

/// Checks requests in one call.
pub(crate) fn check_all(server: &Server, checks: &[Value]) -> Answer {
    let body = json!({"checks": checks}).to_string();
    let answer = server.post("/api/v1/rate-limit/check/batch", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

/// A check of one request; a user without a name is not known.
pub(crate) fn check(ip: &str, user: &str, tenant: &str, method: &str, endpoint: &str) -> Value {
    let mut identifiers = json!({"ip": ip, "tenant": tenant});
    if !user.is_empty() {
        identifiers["user_id"] = user.into();
    }
    json!({"identifiers": identifiers, "method": method, "endpoint": endpoint})
}

/// One round of requests: customers of two tenants, one client that guesses passwords, a scraper, an upload.
pub(crate) fn round(turn: usize) -> Vec<Value> {
    let mut checks = Vec::new();
    for client in 0..12 {
        let tenant = if client % 3 == 0 { "globex" } else { "acme" };
        let (ip, user) = (format!("203.0.113.{}", 10 + client), format!("u_{}", 8100 + client));
        let endpoint = ["/orders", "/orders/4711", "/search", "/cart"][(turn + client) % 4];
        checks.push(check(&ip, &user, tenant, "GET", endpoint));
    }
    checks.push(check("10.1.2.3", "probe", "acme", "GET", "/health"));
    if turn.is_multiple_of(3) {
        checks.push(check("198.51.100.99", "scraper", "globex", "GET", "/orders"));
        checks.push(check("192.0.2.81", "ann", "acme", "POST", "/exports"));
    }
    for _ in 0..(turn % 4) {
        checks.push(check("203.0.113.66", "", "acme", "POST", "/login"));
        checks.push(check("192.0.2.15", "u_33", "globex", "PUT", "/uploads"));
        checks.push(check("192.0.2.16", "u_34", "acme", "GET", "/search"));
    }
    checks
}

/// A busy minute in a moment, so that every page has something to show. Returns the id of a refusal.
pub(crate) fn busy(server: &Server) -> String {
    for turn in 0..40 {
        check_all(server, &round(turn));
    }
    until("figures of the last seconds", || {
        let history = server.get_as_admin("/api/v1/history?range=5m").json();
        let refused = history["node"]["refused"].as_array()?.iter().filter_map(Value::as_u64);
        (refused.sum::<u64>() > 0).then_some(())
    });
    let refusal = until("a refusal in the log", || {
        let log = server.get_as_admin("/api/v1/audit/decisions?rule_id=login").json();
        let id = log["records"].as_array()?.iter().find_map(|it| it["decision_id"].as_str());
        id.map(str::to_owned)
    });
    until("a ban", || {
        let bans = server.get_as_admin("/api/v1/bans").json();
        bans["bans"].as_array().filter(|bans| !bans.is_empty()).map(drop)
    });
    refusal
}
