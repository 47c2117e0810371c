//! How pages look: at three widths, in both themes, with traffic, without, with errors and without the store.

use serde_json::json;
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;
use tollgate_testbed::Redis;

use crate::script::run;
use crate::shop;

/// The address of every page, with an example of what has one. The page Simulate is looked at where it is offered.
const PAGES: &[&str] = &[
    "/",
    "/ui/rules",
    "/ui/rules/login",
    "/ui/rules/uploads?edit=yaml",
    "/ui/new-rule",
    "/ui/clients",
    "/ui/clients?q=203.0.113.66",
    "/ui/client?type=ip&value=203.0.113.66&endpoint=%2Flogin&method=POST",
    "/ui/client?type=user_id&value=ann",
    "/ui/live",
    "/ui/live?window=300&outcome=refused",
    "/ui/try?ip=203.0.113.66&endpoint=%2Flogin&method=POST",
];

/// Pages with long lists.
const LOGS_AND_LISTS: &[&str] = &[
    "/ui/audit",
    "/ui/audit?log=decisions",
    "/ui/lists",
    "/ui/lists?list=blacklist",
    "/ui/lists?list=whitelist",
    "/ui/lists?list=overrides",
    "/ui/keys",
    "/ui/health",
];

/// Pages in place of those that cannot be shown.
const ERRORS: &[(&str, u16)] = &[
    ("/ui/rules/none", 404),
    ("/ui/nowhere", 404),
    ("/ui/client?type=ip&value=nonsense", 422),
    ("/ui/decisions/none", 404),
];

#[test]
fn pages_with_traffic_fit_every_width_and_theme_and_are_accessible() {
    let server = shop::open();
    shop::busy(&server);
    run("looks.py", &server, &json!({"pages": PAGES}));
}

#[test]
fn logs_lists_and_errors_fit_every_width_and_theme_and_are_accessible() {
    let server = shop::open();
    let refusal = shop::busy(&server);
    let decision = format!("/ui/decisions/{refusal}");
    let pages: Vec<&str> = LOGS_AND_LISTS.iter().copied().chain([decision.as_str()]).collect();
    run("looks.py", &server, &json!({"pages": pages, "errors": ERRORS}));
}

#[test]
fn pages_without_traffic_say_what_to_do() {
    let server = Server::start(&Setup { settings: shop::OFTEN, ..Setup::default() });
    let pages = [
        "/",
        "/ui/rules",
        "/ui/clients",
        "/ui/clients?q=not-seen-yet",
        "/ui/live",
        "/ui/try",
        "/ui/audit?log=decisions",
        "/ui/lists",
        "/ui/lists?list=overrides",
        "/ui/keys",
        "/ui/health",
    ];
    let texts = json!({
        "/": "No requests yet. Try this:",
        "/ui/live": "No client was refused.",
        "/ui/try": "Compose a request and explain it.",
        "/ui/lists": "No client is banned.",
        "/ui/audit?log=decisions": "No decisions",
    });
    run("looks.py", &server, &json!({"pages": pages, "texts": texts}));
}

#[test]
fn a_store_that_fails_is_named_with_what_happens_now() {
    let redis = Redis::start();
    let server = shop::open_with(&format!("store: {}", redis.url()));
    redis.kill();
    until("the circuit breaker to open", || {
        shop::check_all(&server, &shop::round(1));
        let metrics = server.get("/metrics").text();
        let mut lines = metrics.lines().filter(|line| line.starts_with("tollgate_store_up"));
        lines.any(|line| line.ends_with(" 0.0") || line.ends_with(" 0")).then_some(())
    });
    let texts = json!({"/": "circuit", "/ui/health": "open"});
    run("looks.py", &server, &json!({"pages": ["/", "/ui/health"], "texts": texts}));
}
