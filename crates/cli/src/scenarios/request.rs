//! A request of a scenario: what is known about it, with the names that the check API has.

use std::collections::BTreeMap;

use tollgate::{Attribute, Attributes};
use tollgate_core::MAX_LIMIT;
use tollgate_document::{Decode, Field, Fields, Node, Scope};

/// What is known about a request. Of a step, what is absent is that of the scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct ScenarioRequest {
    user_id: Option<String>,
    api_key: Option<String>,
    ip: Option<String>,
    tenant: Option<String>,
    endpoint: Option<String>,
    method: Option<String>,
    host: Option<String>,
    tier: Option<String>,
    attributes: BTreeMap<String, String>,
    cost: Option<u64>,
}

const fn field(name: &'static str, about: &'static [&'static str]) -> Field {
    Field { name, about, range: None, pattern: None }
}

const FIELDS: [Field; 10] = [
    field("user_id", &["the authenticated user"]),
    field("api_key", &["the API key"]),
    field("ip", &["the address of the client"]),
    field("tenant", &["the tenant"]),
    field("endpoint", &["the path"]),
    field("method", &["the HTTP method"]),
    field("host", &["the host"]),
    field("tier", &["the tier of the client"]),
    field("attributes", &["anything else; header:NAME and claim:NAME are headers and claims"]),
    Field { range: Some(0..=MAX_LIMIT), ..field("cost", &["what it costs"]) },
];

impl Decode for ScenarioRequest {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let before = scope.found();
        let mut fields = Fields::open(node, &FIELDS, scope)?;
        let attributes: Option<BTreeMap<String, String>> = fields.optional("attributes");
        let request = Self {
            user_id: fields.optional("user_id"),
            api_key: fields.optional("api_key"),
            ip: fields.optional("ip"),
            tenant: fields.optional("tenant"),
            endpoint: fields.optional("endpoint"),
            method: fields.optional("method"),
            host: fields.optional("host"),
            tier: fields.optional("tier"),
            attributes: attributes.unwrap_or_default().into_iter().map(named).collect(),
            cost: fields.optional("cost"),
        };
        (scope.found() == before).then_some(request)
    }
}

/// The case of a header does not matter.
fn named((name, value): (String, String)) -> (String, String) {
    let is_header = name.get(..7).is_some_and(|prefix| prefix.eq_ignore_ascii_case("header:"));
    (if is_header { name.to_ascii_lowercase() } else { name }, value)
}

impl ScenarioRequest {
    /// This request, with what it lacks from another.
    pub(super) fn or(&self, other: &Self) -> Self {
        let either = |ours: &Option<String>, other: &Option<String>| ours.clone().or(other.clone());
        let mut attributes = other.attributes.clone();
        attributes.extend(self.attributes.clone());
        Self {
            user_id: either(&self.user_id, &other.user_id),
            api_key: either(&self.api_key, &other.api_key),
            ip: either(&self.ip, &other.ip),
            tenant: either(&self.tenant, &other.tenant),
            endpoint: either(&self.endpoint, &other.endpoint),
            method: either(&self.method, &other.method),
            host: either(&self.host, &other.host),
            tier: either(&self.tier, &other.tier),
            attributes,
            cost: self.cost.or(other.cost),
        }
    }
}

impl Attributes for ScenarioRequest {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        let more = |prefix: &str, name: &str| {
            self.attributes.get(&format!("{prefix}{name}")).map(String::as_str)
        };
        match attribute {
            Attribute::UserId => self.user_id.as_deref(),
            Attribute::ApiKey => self.api_key.as_deref(),
            Attribute::Ip => self.ip.as_deref(),
            Attribute::Tenant => self.tenant.as_deref(),
            Attribute::Host => self.host.as_deref(),
            Attribute::Path => self.endpoint.as_deref(),
            Attribute::Method => self.method.as_deref(),
            Attribute::Tier => self.tier.as_deref(),
            Attribute::Header(name) => more("header:", name),
            Attribute::Claim(name) => more("claim:", name),
            Attribute::Custom(name) => more("", name),
        }
    }

    fn cost(&self) -> u64 {
        self.cost.unwrap_or(1)
    }
}
