//! A workload that several measurements share: clients with three identifiers, and rules of which three apply to each
//! of their requests.

use std::fmt::Write as _;

use tollgate::{Policy, Problem, Request};

/// Units per day of every rule, and at once: so many that every check is admitted and written.
pub const LIMIT: u32 = 1_000_000_000;
/// The window of every rule.
pub const WINDOW_SECONDS: u32 = 86_400;
/// What every counter has used when a measurement begins. It takes hours to drain, so that no counter expires.
pub const USED: u32 = LIMIT / 10;

/// The rules of each service: one for each identifier, so that three apply to every request.
pub const RULES_OF_SERVICE: [(&str, &str); 3] =
    [("user_id", "gcra"), ("ip", "sliding_window_counter"), ("tenant", "fixed_window")];

/// How many services have all of their rules among the first `rules`.
#[must_use]
pub const fn services(rules: u32) -> u32 {
    rules / RULES_OF_SERVICE.len() as u32
}

/// A policy of so many rules.
///
/// # Errors
/// The policy is invalid, which is a bug.
pub fn policy(rules: u32) -> Result<Policy, Vec<Problem>> {
    Policy::from_text(&policy_text(rules))
}

/// The document of that policy.
#[must_use]
pub fn policy_text(rules: u32) -> String {
    let mut text = String::from("rules:\n");
    for number in 0..rules {
        let service = number / RULES_OF_SERVICE.len() as u32;
        let (identifier, algorithm) = RULES_OF_SERVICE[number as usize % RULES_OF_SERVICE.len()];
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "- {{rule_id: r{number}, identifier_type: {identifier}, algorithm: {algorithm}, \
             limit: {LIMIT}, window_seconds: {WINDOW_SECONDS}, \
             applies_to: {{endpoints: [/service-{service}/*]}}}}"
        );
    }
    text
}

/// What is known about the requests of one client.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The user.
    pub user_id: String,
    /// The address.
    pub ip: String,
    /// The tenant.
    pub tenant: String,
    /// The path of its requests. Each client uses one of the services, so that rules add no counters.
    pub path: String,
}

impl Client {
    /// So many clients, spread over so many services.
    #[must_use]
    pub fn all(clients: u32, services: u32) -> Vec<Self> {
        let client = |number: u32| Self {
            user_id: format!("user-{number:08x}"),
            ip: format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255),
            tenant: format!("tenant-{number:05}"),
            path: format!("/service-{}/orders/{number}", number % services.max(1)),
        };
        (0..clients).map(client).collect()
    }

    /// A request of this client.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        Request::new()
            .user_id(&self.user_id)
            .ip(&self.ip)
            .tenant(&self.tenant)
            .method("GET")
            .path(&self.path)
    }
}
