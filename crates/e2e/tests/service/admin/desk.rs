//! A server with its own catalog, and tokens for it.

use serde_json::{Value, json};

use tollgate_e2e::client::{Answer, request};
use tollgate_e2e::server::{ADMIN_TOKEN, CALLER_TOKEN, JSON, Server, Setup};

/// Tests exceed the default limits of the admin API.
const SETTINGS: &str = "{check_auth: token, limits: {admin_reads_per_minute: 1000000, \
                        admin_writes_per_minute: 1000000}}";

/// A server, and the ways to call it.
pub(crate) struct TestServer {
    pub(crate) server: Server,
}

/// One call of the admin API.
pub(crate) struct Step<'a> {
    method: &'a str,
    path: &'a str,
    body: &'a str,
    condition: Option<(&'a str, &'a str)>,
}

/// A call without a condition.
pub(crate) const fn step<'a>(method: &'a str, path: &'a str, body: &'a str) -> Step<'a> {
    Step { method, path, body, condition: None }
}

impl<'a> Step<'a> {
    /// This call with a header field such as `If-Match`.
    pub(crate) const fn when(self, name: &'a str, value: &'a str) -> Self {
        Self { condition: Some((name, value)), ..self }
    }
}

impl TestServer {
    pub(crate) fn open() -> Self {
        Self::with(&Setup {
            settings: SETTINGS,
            environment: &[("TOLLGATE_CHECK_TOKEN", CALLER_TOKEN)],
            ..Setup::default()
        })
    }

    /// A server with rules in a file.
    pub(crate) fn with_rules(rules: &str) -> Self {
        Self::with(&Setup {
            settings: SETTINGS,
            rules: Some(rules),
            environment: &[("TOLLGATE_CHECK_TOKEN", CALLER_TOKEN)],
            ..Setup::default()
        })
    }

    pub(crate) fn with(setup: &Setup<'_>) -> Self {
        Self { server: Server::start(setup) }
    }

    /// A new token of that role; of that tenant, if there is one.
    pub(crate) fn token(&self, role: &str, tenant: Option<&str>) -> String {
        let body = json!({"role": role, "tenant": tenant}).to_string();
        let made = self.as_admin("POST", "/api/v1/tokens", &body);
        assert_eq!(made.status, 201, "{made:?}");
        text(&made.json(), "token")
    }

    /// Calls with a token.
    pub(crate) fn call(&self, token: &str, step: &Step<'_>) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![JSON, ("Authorization", bearer.as_str())];
        headers.extend(step.condition);
        let Step { method, path, body, .. } = step;
        self.server.connect().ask(&request(method, path, &headers, body.as_bytes()))
    }

    pub(crate) fn as_admin(&self, method: &str, path: &str, body: &str) -> Answer {
        self.call(ADMIN_TOKEN, &step(method, path, body))
    }

    /// The response to an administrator who reads a path.
    pub(crate) fn read(&self, path: &str) -> Value {
        let answer = self.as_admin("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Makes changes that succeed.
    pub(crate) fn prepare(&self, method: &str, path: &str, body: &str) -> Value {
        let answer = self.as_admin(method, path, body);
        assert!((200..300).contains(&answer.status), "{method} {path} {body}: {answer:?}");
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }

    /// Makes calls one after the other as an administrator. Each response must have the expected status
    /// and text.
    pub(crate) fn check(&self, steps: &[(Step<'_>, u16, &str)]) {
        for (number, (step, status, words)) in steps.iter().enumerate() {
            let answer = self.call(ADMIN_TOKEN, step);
            let Step { method, path, body, .. } = step;
            let place = format!("step {number}: {method} {path} {body}");
            assert_eq!(answer.status, *status, "{place}: {answer:?}");
            assert!(answer.text().contains(words), "{place}: no {words} in {answer:?}");
            if *status >= 400 {
                assert!(!answer.code().is_empty());
            }
        }
    }
}

/// A field that is a text.
pub(crate) fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no text {field} in {value}")).to_owned()
}
