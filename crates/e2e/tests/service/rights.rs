//! The permission that each call needs, and how often calls may be made.

use tollgate_e2e::client::{Answer, Connection, request};
use tollgate_e2e::server::{
    ADMIN_TOKEN, AUTHORIZE, CALLER_TOKEN, CHECK, JSON, Server, Setup, bearer_admin,
};

const RULES: &str =
    "rules: [{rule_id: per_user, limit: 1000, window: 1h, identifier_type: user_id}]";

/// Statuses without a token, with the token for callers, and with that of the administrator.
type Statuses = [u16; 3];

/// The statuses of a call where checks need no token, and where they need one.
struct Call {
    method: &'static str,
    path: &'static str,
    body: &'static str,
    open: Statuses,
    closed: Statuses,
}

const fn call(
    method: &'static str,
    path: &'static str,
    body: &'static str,
    open: Statuses,
    closed: Statuses,
) -> Call {
    Call { method, path, body, open, closed }
}

const ALICE: &str = r#"{"identifiers":{"user_id":"alice"}}"#;
const PUBLIC: Statuses = [200, 200, 200];
const CALLERS: Statuses = [401, 200, 200];

#[rustfmt::skip]
const CALLS: &[Call] = &[
    call("POST", CHECK, ALICE, PUBLIC, CALLERS),
    call("POST", "/api/v1/rate-limit/check/batch", r#"{"checks":[{}]}"#, PUBLIC, CALLERS),
    call("POST", "/api/v1/rate-limit/peek", ALICE, PUBLIC, CALLERS),
    call("POST", "/api/v1/rate-limit/explain", ALICE, PUBLIC, CALLERS),
    call("GET", "/api/v1/rate-limit/authorize/", "", PUBLIC, CALLERS),
    call("DELETE", "/api/v1/rate-limit/authorize/orders", "", PUBLIC, CALLERS),
    call("GET", "/api/v1/rate-limits/status", "", PUBLIC, PUBLIC),
    call("POST", "/api/v1/rate-limit/refund", ALICE, [401, 403, 200], [401, 403, 200]),
    call("POST", "/api/v1/rate-limit/reset", ALICE, [401, 403, 200], [401, 403, 200]),
    call("GET", "/api/v1/decisions/d00000000-a0", "", [401, 403, 404], [401, 403, 404]),
    call("GET", "/api/v1/rules", "", [401, 403, 200], [401, 403, 200]),
    call("GET", "/api/v1/rules/per_user", "", [401, 403, 200], [401, 403, 200]),
    call("GET", "/api/v1/rules/nope", "", [401, 403, 404], [401, 403, 404]),
    call("POST", "/api/v1/rules", "{}", [401, 403, 405], [401, 403, 405]),
    call("PUT", "/api/v1/rules/per_user", "{}", [401, 403, 405], [401, 403, 405]),
    call("PATCH", "/api/v1/rules/per_user", "{}", [401, 403, 405], [401, 403, 405]),
    call("DELETE", "/api/v1/rules/per_user", "", [401, 403, 405], [401, 403, 405]),
    call("GET", "/admin/api/v1/rate-limits/rules", "", [401, 403, 200], [401, 403, 200]),
    call("GET", "/admin/api/v1/rate-limits/rules/per_user", "", [401, 403, 200], [401, 403, 200]),
    call("DELETE", "/admin/api/v1/rate-limits/rules/per_user", "", [401, 403, 405], [401, 403, 405]),
    call("GET", "/health/live", "", PUBLIC, PUBLIC),
    call("GET", "/health/ready", "", PUBLIC, PUBLIC),
    call("GET", "/healthcheck", "", PUBLIC, PUBLIC),
    call("GET", "/metrics", "", PUBLIC, PUBLIC),
    call("GET", "/openapi.json", "", PUBLIC, PUBLIC),
    call("GET", "/docs/", "", PUBLIC, PUBLIC),
    call("GET", "/nowhere", "", [404, 404, 404], [404, 404, 404]),
    call("GET", CHECK, "", [405, 405, 405], [405, 405, 405]),
];

fn start(settings: &str) -> Server {
    let environment = [("TOLLGATE_CHECK_TOKEN", CALLER_TOKEN)];
    Server::start(&Setup {
        rules: Some(RULES),
        settings,
        environment: &environment,
        ..Setup::default()
    })
}

#[test]
fn every_call_needs_its_permission() {
    for (settings, is_open) in [("check_auth: none", true), ("check_auth: token", false)] {
        let server = start(settings);
        let mut connection = server.connect();
        for call in CALLS {
            let expected = if is_open { call.open } else { call.closed };
            let ask = |connection: &mut Connection, token: Option<&str>| {
                let bearer = token.map(|token| format!("Bearer {token}")).unwrap_or_default();
                let mut headers = vec![
                    JSON,
                    ("Authorization", &bearer),
                    ("X-Tollgate-Token", token.unwrap_or_default()),
                ];
                // Proxies forward `Authorization`, so for them it is that of their client.
                let is_proxy = call.path.starts_with(AUTHORIZE);
                headers.retain(|(name, value)| {
                    !value.is_empty() && (*name != "X-Tollgate-Token" || is_proxy)
                });
                let request = request(call.method, call.path, &headers, call.body.as_bytes());
                connection.ask(&request)
            };
            let answers = [None, Some(CALLER_TOKEN), Some(ADMIN_TOKEN)]
                .map(|token| ask(&mut connection, token));
            let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
            assert_eq!(statuses, expected, "{settings} {} {}", call.method, call.path);
            for answer in answers.iter().filter(|answer| answer.status >= 400) {
                assert!(!answer.code().is_empty());
                // A challenge would reach the client of the proxy, which has no token.
                let is_challenged = answer.status == 401 && !call.path.starts_with(AUTHORIZE);
                let has_challenge = answer.header("www-authenticate").is_some();
                assert_eq!(has_challenge, is_challenged, "{answer:?}");
            }
        }
        let log = server.process.errors();
        assert!(!log.contains(ADMIN_TOKEN) && !log.contains(CALLER_TOKEN), "{log}");
    }
}

#[test]
fn the_admin_api_can_have_another_address() {
    let server = Server::start(&Setup {
        rules: Some(RULES),
        arguments: &["--admin", "127.0.0.1:0"],
        ..Setup::default()
    });
    let admin = server.admin_address.expect("an address");
    let check = |method: &str, path: &str, body: &str, expected: [u16; 2]| {
        let request = request(method, path, &[JSON, bearer_admin()], body.as_bytes());
        let ask = |address| Connection::open(address).ask(&request).status;
        assert_eq!([server.address, admin].map(ask), expected, "{method} {path}");
    };
    check("POST", CHECK, ALICE, [200, 404]);
    check("GET", "/api/v1/rate-limit/authorize/", "", [200, 404]);
    check("GET", "/api/v1/rules", "", [404, 200]);
    check("GET", "/admin/api/v1/rate-limits/rules/per_user", "", [404, 200]);
    check("GET", "/api/v1/decisions/d00000000-a0", "", [404, 404]);
    check("GET", "/metrics", "", [200, 200]);
    check("GET", "/health/ready", "", [200, 200]);
}

#[test]
fn the_token_of_a_proxy_is_not_that_of_its_client() {
    let server = start("check_auth: token");
    let caller = format!("Bearer {CALLER_TOKEN}");
    let ask =
        |headers: &[(&str, &str)]| server.ask("GET", &format!("{AUTHORIZE}/"), headers, "").status;
    assert_eq!(ask(&[("Authorization", &caller)]), 401);
    assert_eq!(ask(&[("X-Tollgate-Token", CALLER_TOKEN)]), 200);
    assert_eq!(ask(&[("X-Tollgate-Token", CALLER_TOKEN), ("Authorization", "Basic abc")]), 200);
}

#[test]
fn guesses_of_tokens_are_bounded() {
    let server = start("check_auth: token");
    let guess = |token: &str| {
        let bearer = format!("Bearer {token}");
        server.ask("POST", CHECK, &[JSON, ("Authorization", &bearer)], ALICE)
    };
    for number in 0..20 {
        let answer = guess(&format!("guess-{number}"));
        assert_eq!((answer.status, answer.code().as_str()), (401, "wrong_token"), "{number}");
    }
    let refused = guess("guess-20");
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_calls"));
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(guess(CALLER_TOKEN).status, 200, "the right token still works");
    assert!(!server.process.errors().contains("guess-"), "{}", server.process.errors());
}

/// Calls until a call is refused; returns how many were not.
fn count(most: usize, mut ask: impl FnMut() -> Answer) -> (usize, Answer) {
    for passed in 0..=most {
        let answer = ask();
        if answer.status == 429 {
            return (passed, answer);
        }
    }
    panic!("more than {most} calls passed");
}

#[test]
fn administrators_are_limited_too() {
    let server = start(
        "{check_auth: none, limits: {admin_reads_per_minute: 7, admin_writes_per_minute: 4}}",
    );
    let mut connection = server.connect();
    let mut check = |method: &str, path: &str, body: &str, most: usize| {
        let request = request(method, path, &[JSON, bearer_admin()], body.as_bytes());
        let (passed, refused) = count(most + 5, || connection.ask(&request));
        assert_eq!(passed, most, "{path}");
        assert_eq!(refused.code(), "too_many_calls");
        let wait = refused.header("retry-after").and_then(|wait| wait.parse().ok());
        assert!(wait.is_some_and(|wait: u64| (1..=120).contains(&wait)), "{refused:?}");
        assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    };
    check("POST", "/api/v1/rate-limit/reset", ALICE, 4);
    check("GET", "/api/v1/rules", "", 7);
    assert_eq!(server.post(CHECK, ALICE).status, 200, "checks are another matter");
}

#[test]
fn calls_to_the_server_are_rate_limited() {
    let server = start("{check_auth: none, limits: {check_calls_per_second: 1}}");
    let mut connection = server.connect();
    let check = request("POST", CHECK, &[JSON], ALICE.as_bytes());
    let (passed, refused) = count(100, || connection.ask(&check));
    assert!(passed >= 1, "the first call passes");
    assert_eq!(
        (refused.code().as_str(), refused.header("retry-after")),
        ("too_many_calls", Some("1"))
    );
    assert!(refused.text().contains("limits.check_calls_per_second"), "{refused:?}");
    assert_eq!(server.get("/health/live").status, 200, "health is another matter");
}
