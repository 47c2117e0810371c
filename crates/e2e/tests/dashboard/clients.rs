//! Why a client is refused, and what can be done about it: also where a rule counts by something else than its name.

use serde_json::{Value, json};
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;
use tollgate_testbed::Redis;

use crate::browser::{Browser, put_rule};

const PER_IP: &str = r#"{"rule_id":"per_ip","limit":2,"window":"1h","identifier_type":"ip"}"#;
const MALLORY: &str =
    r#"{"identifiers":{"user_id":"mallory","ip":"198.51.100.23"},"endpoint":"/x","method":"GET"}"#;
const PAGE: &str = "/ui/client?type=user_id&value=mallory";
/// The button that makes an override.
const DOUBLE: &str = "Double for 4 h<span class=\"hidden-text\"> under per_ip<";
const PAGE_OF_IP: &str = "/ui/client?type=ip&value=198.51.100.23";

/// A server with a rule by address, and a browser of its administrator.
fn start() -> Server {
    let server = Server::start(&Setup::default());
    put_rule(&server, PER_IP);
    server
}

/// Sends requests until one is refused; returns its decision.
fn refuse(server: &Server, body: &str) -> String {
    for _ in 0..3 {
        server.check(body);
    }
    let refused = server.check(body);
    assert_eq!(refused["allowed"], false, "{refused}");
    refused["decision_id"].as_str().expect("an id").to_owned()
}

/// A page, once it has this text.
fn page_with(browser: &mut Browser<'_>, path: &str, text: &str) -> String {
    until(text, || Some(browser.get(path).text()).filter(|page| page.contains(text)))
}

#[test]
fn a_refusal_by_address_is_explained_on_the_page_of_the_user() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let id = refuse(&server, MALLORY);
    let page = page_with(&mut browser, PAGE, "/ui/decisions/");
    let limits = page.split("Last decisions").next().expect("limits");
    assert!(limits.contains("/ui/rules/per_ip"), "the rule that refused is a limit: {limits}");
    assert!(limits.contains("counted by"), "{limits}");
    assert!(limits.contains("/ui/client?type=ip&amp;value=198.51.100.23"), "{limits}");
    // The decision page and the API name the key.
    let decision = browser.get(&format!("/ui/decisions/{id}")).text();
    assert!(decision.contains("198.51.100.23") && decision.contains("mallory"), "{decision}");
    assert!(decision.contains("key "), "{decision}");
    let record = server.get_as_admin(&format!("/api/v1/decisions/{id}")).json();
    assert_eq!(record["identifiers"]["ip"], "198.51.100.23", "{record}");
    let keys = record["keys"].as_array().expect("keys");
    let key = keys.iter().find(|it| it["rule_id"] == "per_ip").expect("the rule");
    assert_eq!(key["key"][0]["value"], "198.51.100.23", "{record}");
}

#[test]
fn a_client_is_found_by_any_of_its_identifiers() {
    let server = start();
    let mut browser = Browser::admin(&server);
    refuse(&server, MALLORY);
    let page = page_with(&mut browser, PAGE_OF_IP, "/ui/decisions/");
    assert!(page.contains("/ui/client?type=user_id&amp;value=mallory"), "{page}");
    let count = |query: &str| {
        let found = server.get_as_admin(&format!("/api/v1/audit/decisions?{query}")).json();
        found["records"].as_array().map_or(0, Vec::len)
    };
    assert!(count("client=198.51.100.23") > 0);
    assert!(count("client=198.51.100.23&client_type=ip") > 0);
    assert!(count("client=mallory&client_type=user_id") > 0);
    assert_eq!(count("client=mallory&client_type=tenant"), 0);
    let tenant = browser.get("/ui/client?type=tenant&value=mallory").text();
    assert!(tenant.contains("No decisions are kept of this client"), "{tenant}");
}

#[test]
fn the_counter_behind_a_refusal_is_reset_by_what_the_rule_counts() {
    let server = start();
    let mut browser = Browser::admin(&server);
    refuse(&server, MALLORY);
    page_with(&mut browser, PAGE, "/ui/decisions/");
    let fields =
        [("type", "ip"), ("value", "198.51.100.23"), ("rule_id", "per_ip"), ("next", PAGE)];
    let reset = browser.post("/ui/client/reset", &fields);
    assert_eq!(reset.status, 303, "{reset:?}");
    assert!(reset.header("location").is_some_and(|it| it.starts_with(PAGE)), "{reset:?}");
    assert_eq!(server.check(MALLORY)["allowed"], true);
}

#[test]
fn a_mistake_in_a_menu_comes_back_on_the_page_of_the_client() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let page = browser.get(PAGE).text();
    let (filled, hidden) =
        (r#"name="multiplier" value="2""#, r#"type="hidden" name="multiplier" value="2""#);
    let (filled, hidden) = (page.matches(filled).count(), page.matches(hidden).count());
    assert_eq!(filled, hidden, "nothing is filled in: {page}");
    let wrong = [
        ("type", "user_id"),
        ("value", "mallory"),
        ("rule_id", "per_ip"),
        ("limit", "5001"),
        ("multiplier", "3"),
        ("minutes", "60"),
        ("next", PAGE),
    ];
    let refused = browser.post("/ui/client/override", &wrong);
    assert_eq!(refused.status, 422, "{refused:?}");
    let page = refused.text();
    assert!(page.contains("Limits that apply"), "the page of the client: {page}");
    assert!(page.contains("exclude each other"), "{page}");
    assert!(page.contains(r#"value="5001""#) && page.contains(r#"value="3""#), "{page}");
    assert!(page.contains("<details class=\"menu\" open"), "{page}");
    let none = [("type", "user_id"), ("value", "mallory"), ("rule_id", "per_ip")];
    let refused = browser.post("/ui/client/override", &none);
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.text().contains("Fill in a limit"), "{refused:?}");
}

#[test]
fn the_page_of_an_api_key_is_reached_by_its_digest_and_says_what_it_cannot_show() {
    let server = start();
    let rule = r#"{"rule_id":"per_key","limit":2,"window":"1h","identifier_type":"api_key"}"#;
    put_rule(&server, rule);
    let made = server.post_as_admin("/api/v1/api-keys", r#"{"key":"sk-known","name":"nightly"}"#);
    assert_eq!(made.status, 201, "{made:?}");
    let mut browser = Browser::admin(&server);
    refuse(&server, r#"{"identifiers":{"api_key":"sk-known"},"endpoint":"/x"}"#);
    let found = page_with(&mut browser, "/ui/live", "type=api_key&amp;value=sha256%3A");
    assert!(!found.contains("/ui/clients?q=sha256"), "{found}");
    let rest = found.split("type=api_key&amp;value=").nth(1).expect("a link");
    let digest = rest.split('"').next().expect("a value").replace("%3A", ":");
    let by_digest = format!("/ui/client?type=api_key&value={digest}");
    let page = page_with(&mut browser, &by_digest, "/ui/decisions/");
    assert!(page.contains("nightly"), "the key is known: {page}");
    assert!(page.contains("What is left is not known"), "{page}");
    assert!(!page.contains("unused"), "figures of another counter: {page}");
    let by_key =
        page_with(&mut browser, "/ui/client?type=api_key&value=sk-known", "/ui/decisions/");
    assert!(by_key.contains("0 of 2 left"), "{by_key}");
    // Neither is offered as a user or a tenant, and the key is found by itself.
    let search = browser.get(&format!("/ui/clients?q={digest}")).text();
    assert!(search.contains("type=api_key"), "{search}");
    for kind in ["type=user_id", "type=tenant"] {
        assert!(!search.contains(kind), "{kind}: {search}");
    }
    let search = browser.get("/ui/clients?q=sk-known").text();
    assert!(search.contains("/ui/client?type=api_key&amp;value=sk-known"), "{search}");
}

#[test]
fn the_search_says_of_which_clients_nothing_is_known() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let page = browser.get("/ui/clients?q=stranger").text();
    assert_eq!(page.matches("nothing is known of it").count(), 2, "{page}");
    server.check(r#"{"identifiers":{"user_id":"stranger"}}"#);
    let page = page_with(&mut browser, "/ui/clients?q=stranger", "seen in the last 5 min");
    assert_eq!(page.matches("nothing is known of it").count(), 1, "the tenant: {page}");
    assert!(!page.contains("/ui/clients?q=stranger\">"), "a name leads to a page: {page}");
    let network = browser.get("/ui/clients?q=198.51.100.0%2F24").text();
    assert!(!network.contains("type=user_id"), "{network}");
    refuse(&server, MALLORY);
    let page = page_with(&mut browser, "/ui/clients?q=mallory", "in the log of decisions");
    assert_eq!(page.matches("nothing is known of it").count(), 1, "the tenant: {page}");
    assert!(page.contains("Requests, last 5 min"), "{page}");
}

/// Customers send the id that their refusal has; the search showed two clients of that name, both unknown.
#[test]
fn the_id_of_a_decision_leads_to_its_page() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let id = refuse(&server, MALLORY);
    for typed in [id.clone(), format!("+{id}+")] {
        let found = browser.get(&format!("/ui/clients?q={typed}"));
        assert_eq!(
            (found.status, found.header("location")),
            (303, Some(&*format!("/ui/decisions/{id}")))
        );
    }
    assert_eq!(browser.get(&format!("/ui/clients?q={id}-x")).status, 200);
}

#[test]
fn bans_and_lists_are_shown_whatever_the_endpoint() {
    let server = start();
    put_rule(
        &server,
        r#"{"rule_id":"login","limit":1,"window":"1h","identifier_type":"user_id",
            "applies_to":{"endpoints":["/login"]},"penalty":{"after":2,"within_seconds":60,"ban_seconds":600}}"#,
    );
    let mut browser = Browser::admin(&server);
    let body = r#"{"identifiers":{"user_id":"mallory"},"endpoint":"/login","method":"POST"}"#;
    let page = until("a ban", || {
        server.check(body);
        Some(browser.get(PAGE).text()).filter(|page| page.contains("Banned by"))
    });
    assert!(page.contains("Lift the ban"), "{page}");
    for (path, word) in [("/ui/client/ban", "Always refused"), ("/ui/lists/add", "Never limited")] {
        let fields = [("type", "user_id"), ("value", "mallory"), ("list", "whitelist")];
        assert_eq!(browser.post(path, &fields).status, 303);
        let page = browser.get(PAGE).text();
        assert!(page.contains(word) && page.contains("Take it off the list"), "{page}");
    }
    let page = browser.get(PAGE).text();
    assert!(page.contains("Always refused") && page.contains("Never limited"), "{page}");
    assert!(page.contains("Deny…") && !page.contains("Ban…"), "{page}");
}

/// The rule that banned a client used to be hidden until the page had its endpoint.
#[test]
fn the_rule_that_banned_a_client_is_among_its_limits() {
    let server = start();
    put_rule(
        &server,
        r#"{"rule_id":"login","limit":1,"window":"1h","identifier_type":"ip",
            "applies_to":{"endpoints":["/login"]},"penalty":{"after":2,"within_seconds":60,"ban_seconds":600}}"#,
    );
    let mut browser = Browser::admin(&server);
    let page = until("a ban in the log", || {
        server.check(r#"{"identifiers":{"ip":"198.51.100.23"},"endpoint":"/login"}"#);
        let page = browser.get(PAGE_OF_IP).text();
        (page.contains("Banned by") && page.contains("Nothing is counted until")).then_some(page)
    });
    let limits = page.split("id=\"limits\"").nth(1).expect("limits");
    let limits = limits.split("id=\"last-decisions\"").next().expect("their end");
    let (applying, others) = limits.split_once("not applying").unwrap_or((limits, ""));
    assert!(applying.contains("/ui/rules/login"), "{limits}");
    assert!(applying.contains("/login</a>"), "the request that it refused: {limits}");
    assert!(!others.contains("/ui/rules/login"), "{limits}");
}

#[test]
fn a_check_from_try_is_explained_with_its_request() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let fields = [("user_id", "zoe"), ("ip", "192.0.2.9"), ("endpoint", "/x"), ("method", "GET")];
    let checked = browser.post("/ui/try", &fields).text();
    let rest = checked.split("/ui/decisions/").nth(1).expect("a link to the decision");
    let id = rest.split('"').next().expect("an id");
    let page = browser.get(&format!("/ui/decisions/{id}")).text();
    assert!(page.contains("zoe") && page.contains("/x"), "{page}");
    assert!(page.contains("192.0.2.9"), "{page}");
    assert!(page.contains("this node"), "the node that decided: {page}");
}

#[test]
fn changes_are_filtered_by_the_name_of_a_token() {
    let server = start();
    let made = server.post_as_admin("/api/v1/tokens", r#"{"role":"operator","name":"alice-sre"}"#);
    let made = made.json();
    let token = made["token"].as_str().expect("a token");
    let bearer = format!("Bearer {token}");
    let rule = r#"{"rule_id":"hers","limit":5,"window":"1m","identifier_type":"user_id"}"#;
    let headers = [("Content-Type", "application/json"), ("Authorization", bearer.as_str())];
    assert_eq!(server.ask("POST", "/api/v1/rules", &headers, rule).status, 201);
    let id = made["token_id"].as_str().expect("an id");
    for actor in ["alice-sre", id] {
        let found = server.get_as_admin(&format!("/api/v1/audit?actor={actor}")).json();
        assert_eq!(found["records"][0]["entry"], "hers", "{actor}: {found}");
    }
    let unknown = server.get_as_admin("/api/v1/audit?actor=alice");
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_actor"), "{unknown:?}");
    let mut browser = Browser::admin(&server);
    for path in ["/ui/audit", "/ui/rules/hers"] {
        assert!(browser.get(path).text().contains("alice-sre"), "{path}");
    }
}

#[test]
fn a_limit_resets_at_one_moment_on_every_page() {
    let server = Server::start(&Setup::default());
    let rule = r#"{"rule_id":"hourly","limit":9,"window":"1h","identifier_type":"user_id","algorithm":"sliding_window_counter"}"#;
    put_rule(&server, rule);
    let checked = server.check(r#"{"identifiers":{"user_id":"mallory"},"detail":true}"#);
    let rules = checked["rules"].as_array().expect("rules");
    let hourly = rules.iter().find(|it| it["rule_id"] == "hourly").expect("the rule");
    let second = |name: &str| hourly[name].as_u64().expect("a time");
    let between = second("full_at") - second("reset_at");
    let explained =
        server.post("/api/v1/rate-limit/explain", r#"{"identifiers":{"user_id":"mallory"}}"#);
    let explained = explained.json();
    let figures = explained["figures"].as_array().expect("figures");
    let figures = figures.iter().find(|it| it["rule_id"] == "hourly").expect("the rule");
    let millis = |name: &str| figures[name].as_u64().expect("a time");
    assert!(between > 0, "the window ends before all is free: {hourly}");
    let told = (millis("reset_ms") - millis("window_reset_ms")) / 1_000;
    assert!(told.abs_diff(between) <= 2, "{told} and {between} seconds");
    let mut browser = Browser::admin(&server);
    for path in [PAGE, "/ui/try?user_id=mallory"] {
        let page = browser.get(path).text();
        assert!(page.contains("resets in") || page.contains("resets <time"), "{path}: {page}");
        assert!(page.contains("full again"), "{path}: {page}");
    }
}

/// A rule that fails closed used to be explained as "no rule applies", and doubled limits as those of the rule.
#[test]
fn an_outage_of_the_store_is_named_where_limits_are_shown() {
    let redis = Redis::start();
    let url = redis.url();
    let settings = "store_failure: {deadline: 250ms, failures: 1, probe_after: 1h}";
    let arguments = ["--store", url.as_str()];
    let server = Server::start(&Setup { settings, arguments: &arguments, ..Setup::default() });
    put_rule(
        &server,
        r#"{"rule_id":"local","limit":50,"window":"1h","identifier_type":"user_id","fallback_factor":2}"#,
    );
    put_rule(
        &server,
        r#"{"rule_id":"strict","limit":5,"window":"1h","identifier_type":"user_id","on_store_failure":"closed",
            "applies_to":{"endpoints":["/pay"]}}"#,
    );
    let mut browser = Browser::admin(&server);
    redis.kill();
    let pay = r#"{"identifiers":{"user_id":"mallory"},"endpoint":"/pay","method":"POST"}"#;
    let refused = until("a refusal without the store", || {
        Some(server.check(pay)).filter(|it| it["reason"] == "store_unavailable")
    });
    let id = refused["decision_id"].as_str().expect("an id");
    let page = page_with(&mut browser, &format!("/ui/decisions/{id}"), "mallory");
    assert!(page.contains("refuses requests while the store is away"), "{page}");
    assert!(!page.contains("a list or a ban decides"), "{page}");
    let tried = browser.get("/ui/try?user_id=mallory&endpoint=%2Fpay&method=POST").text();
    assert!(tried.contains("/ui/rules/strict") && tried.contains("fails closed"), "{tried}");
    assert!(!tried.contains("no rule applies"), "{tried}");
    let page = browser.get(PAGE).text();
    assert!(page.contains("50 of 50 left") && page.contains("fallback_factor"), "{page}");
    // What is left is the same everywhere, and falls.
    const SPENDS: &str = r#"{"identifiers":{"user_id":"mallory"},"cost":20}"#;
    for left in [30, 10, 0, 0, 0] {
        let checked = server.check(SPENDS);
        assert_eq!((&checked["limit"], &checked["remaining"]), (&json!(50), &json!(left)));
        let limits = server.get_as_admin("/api/v1/users/mallory/limits").json();
        assert!(limits["degraded"].is_string(), "{limits}");
        let explained = server.post("/api/v1/rate-limit/explain", SPENDS).json();
        for list in [&limits["limits"], &explained["figures"]] {
            let rules = list.as_array().expect("a list");
            let local = rules.iter().find(|it| it["rule_id"] == "local").expect("the rule");
            assert_eq!((&local["limit"], &local["remaining"]), (&json!(50), &json!(left)));
        }
        let page = browser.get(PAGE).text();
        assert!(page.contains(&format!("{left} of 50 left")), "{page}");
    }
    assert_eq!(server.check(SPENDS)["allowed"], false, "100 were used on this node");
    let health = browser.get("/ui/health").text();
    assert!(health.contains("/ui/health#stores") && health.contains("lets pass up to"), "{health}");
    assert!(health.contains("unreachable"), "{health}");
    // Requests that are not checked are figures of the rule that fails closed.
    let stats = server.get_as_admin("/api/v1/stats").json();
    let rules = stats["rules"].as_array().expect("rules");
    let strict = rules.iter().find(|it| it["rule_id"] == "strict").expect("the rule");
    assert_eq!(strict["fallback_closed"], stats["totals"]["error"], "{stats}");
}

/// The fields of the form behind a button of a page.
fn form_behind<'p>(page: &'p str, button: &str) -> Option<Vec<(&'p str, &'p str)>> {
    let (before, _) = page.split_once(button)?;
    let (_, form) = before.rsplit_once("<form ")?;
    let inputs = form.split("<input type=\"hidden\" name=\"").skip(1);
    let field = |input: &'p str| {
        let (name, rest) = input.split_once("\" value=\"")?;
        Some((name, rest.split('"').next()?))
    };
    inputs.map(field).collect()
}

#[test]
fn a_limit_is_doubled_for_four_hours_in_one_click() {
    let server = start();
    let mut browser = Browser::admin(&server);
    refuse(&server, MALLORY);
    let page = browser.get(PAGE_OF_IP).text();
    let form = form_behind(&page, DOUBLE).expect("a button");
    let of_client = [("type", "ip"), ("value", "198.51.100.23"), ("rule_id", "per_ip")];
    assert!(of_client.iter().all(|field| form.contains(field)), "{form:?}");
    let unsafe_form: Vec<_> = form.iter().copied().filter(|(name, _)| *name != "csrf").collect();
    let path = "/ui/client/override";
    assert_eq!(browser.post_as_is(path, &unsafe_form, &[]).status, 403);
    let none = server.get_as_admin("/api/v1/overrides").json();
    assert_eq!(none["overrides"].as_array().map(Vec::len), Some(0), "{none}");
    let done = browser.post_as_is(path, &form, &[]);
    assert_eq!(done.status, 303, "{done:?}");
    let made = server.get_as_admin("/api/v1/overrides").json()["overrides"][0].clone();
    assert_eq!((&made["multiplier"], &made["limit"]), (&json!(2), &Value::Null), "{made}");
    assert_eq!(server.check(MALLORY)["allowed"], true, "two more of four");
    // An override in force is not replaced.
    let page = browser.get(PAGE_OF_IP).text();
    let (_, end) = page.split_once("override, ends ").expect("an override with an end");
    let end = end.split("</time>").next().unwrap_or_default();
    assert!(end.ends_with(">in 4 h") || end.contains(">in 3 h 59 min"), "{end}");
    assert!(!page.contains(DOUBLE), "{page}");
}

#[test]
fn a_limit_that_counts_by_something_else_is_doubled_there() {
    let server = start();
    let mut browser = Browser::admin(&server);
    refuse(&server, MALLORY);
    let page = page_with(&mut browser, PAGE, DOUBLE);
    let form = form_behind(&page, DOUBLE).expect("a button");
    assert!(
        form.contains(&("type", "ip")) && form.contains(&("value", "198.51.100.23")),
        "{form:?}"
    );
    assert_eq!(browser.post_as_is("/ui/client/override", &form, &[]).status, 303);
    assert_eq!(server.check(MALLORY)["allowed"], true);
}
