//! A request built in code, for programs that limit something other than HTTP.

use tollgate_rules::{Attribute, Attributes};

/// The attributes of a request. Set what you have; rules that need something else do not apply.
///
/// ```
/// use tollgate::Request;
///
/// let request = Request::new().user_id("alice").method("POST").path("/orders").cost(3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    user_id: Option<&'a str>,
    api_key: Option<Redacted<'a>>,
    ip: Option<&'a str>,
    tenant: Option<&'a str>,
    host: Option<&'a str>,
    path: Option<&'a str>,
    method: Option<&'a str>,
    tier: Option<&'a str>,
    more: Vec<(Attribute<'a>, &'a str)>,
    cost: u64,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Request<'a> {
    /// A request without attributes, of cost 1.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            user_id: None,
            api_key: None,
            ip: None,
            tenant: None,
            host: None,
            path: None,
            method: None,
            tier: None,
            more: Vec::new(),
            cost: 1,
        }
    }

    /// Sets the authenticated user.
    #[must_use]
    pub fn user_id(mut self, user_id: &'a str) -> Self {
        self.user_id = Some(user_id);
        self
    }

    /// Sets the API key.
    #[must_use]
    pub fn api_key(mut self, api_key: &'a str) -> Self {
        self.api_key = Some(Redacted(api_key));
        self
    }

    /// Sets the address of the client.
    #[must_use]
    pub fn ip(mut self, ip: &'a str) -> Self {
        self.ip = Some(ip);
        self
    }

    /// Sets the tenant the request belongs to.
    #[must_use]
    pub fn tenant(mut self, tenant: &'a str) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// Sets the requested host.
    #[must_use]
    pub fn host(mut self, host: &'a str) -> Self {
        self.host = Some(host);
        self
    }

    /// Sets the requested path.
    #[must_use]
    pub fn path(mut self, path: &'a str) -> Self {
        self.path = Some(path);
        self
    }

    /// Sets the HTTP method.
    #[must_use]
    pub fn method(mut self, method: &'a str) -> Self {
        self.method = Some(method);
        self
    }

    /// Sets the tier of the client; a tier in the policy takes precedence.
    #[must_use]
    pub fn tier(mut self, tier: &'a str) -> Self {
        self.tier = Some(tier);
        self
    }

    /// Sets any other attribute: a header, a claim, a custom one.
    #[must_use]
    pub fn with(mut self, attribute: Attribute<'a>, value: &'a str) -> Self {
        self.more.push((attribute, value));
        self
    }

    /// Sets the cost before rules multiply it. Zero is a peek.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }
}

impl Attributes for Request<'_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        let own = match attribute {
            Attribute::UserId => self.user_id,
            Attribute::ApiKey => self.api_key.as_ref().map(|key| key.0),
            Attribute::Ip => self.ip,
            Attribute::Tenant => self.tenant,
            Attribute::Host => self.host,
            Attribute::Path => self.path,
            Attribute::Method => self.method,
            Attribute::Tier => self.tier,
            Attribute::Header(_) | Attribute::Claim(_) | Attribute::Custom(_) => None,
        };
        own.or_else(|| self.more.iter().find(|more| more.0 == attribute).map(|more| more.1))
    }

    fn cost(&self) -> u64 {
        self.cost
    }
}

/// A value that must not be printed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Redacted<'a>(&'a str);

impl std::fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}
