//! Requests written as text, and plans read as text: what the tests of this crate are made of.

use foldhash::fast::FixedState;
use tollgate_core::Timestamp;
use tollgate_rules::{Admission, Attribute, Attributes, Plan, Policy};

/// A request: `POST /api/orders user_id=u1 header:x-region=eu cost=3`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    values: Vec<(String, String)>,
    cost: Option<u64>,
}

impl Request {
    pub(crate) fn parse(text: &str) -> Self {
        let mut request = Self::default();
        for word in text.split_whitespace() {
            request = match word.split_once('=') {
                Some(("cost", cost)) => {
                    Self { cost: Some(cost.parse().expect("a cost")), ..request }
                }
                _ if word.starts_with('/') => request.with("path", word),
                Some((name, value)) => request.with(name, value),
                None => request.with("method", word),
            };
        }
        request
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.values.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Attributes for Request {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        let name = match attribute {
            Attribute::UserId => "user_id".to_owned(),
            Attribute::ApiKey => "api_key".to_owned(),
            Attribute::Ip => "ip".to_owned(),
            Attribute::Tenant => "tenant".to_owned(),
            Attribute::Host => "host".to_owned(),
            Attribute::Path => "path".to_owned(),
            Attribute::Method => "method".to_owned(),
            Attribute::Tier => "tier".to_owned(),
            Attribute::Header(name) => format!("header:{name}"),
            Attribute::Claim(name) => format!("claim:{name}"),
            Attribute::Custom(name) => format!("attribute:{name}"),
        };
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn cost(&self) -> u64 {
        self.cost.unwrap_or(1)
    }
}

/// The policy of a text that is expected to be valid.
pub(crate) fn policy(text: &str) -> Policy {
    Policy::from_text(text).unwrap_or_else(|problems| {
        let problems = problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        panic!("{}\n{text}", problems.join("\n"))
    })
}

pub(crate) fn plan(policy: &Policy, requests: &[Request], now: Timestamp) -> Plan {
    let subjects = requests.iter().map(|request| request as &dyn Attributes).collect::<Vec<_>>();
    policy.plan(&subjects, now, &FixedState::default())
}

/// One word per line of a plan: `rule(key,key)=limit*cost`, with a `?` for rules that only watch.
/// Standings other than the usual one come first.
pub(crate) fn render(plan: &Plan, policy: &Policy) -> String {
    let mut words = match &plan.admission {
        Admission::Judge => Vec::new(),
        Admission::Unmatched => vec!["unmatched".to_owned()],
        Admission::Allowed { reason } => {
            vec![format!("allowed:{}", reason.as_deref().unwrap_or("-"))]
        }
        Admission::Denied { reason, .. } => {
            vec![format!("denied:{}", reason.as_deref().unwrap_or("-"))]
        }
        Admission::Missing { rule } => {
            vec![format!("missing:{}", policy.rules().get(*rule).expect("a rule").id)]
        }
        Admission::Banned { rule, until } => {
            let rule = &policy.rules().get(*rule).expect("a rule").id;
            vec![format!("banned:{rule}:{}", until.as_micros() / 1_000_000)]
        }
    };
    words.extend(plan.charges(policy.rules()).map(|charge| {
        let parts =
            [charge.key.subject].into_iter().chain(charge.key.rest.split(|byte| *byte == 0xff));
        let parts = parts.map(String::from_utf8_lossy).filter(|part| !part.is_empty());
        let key = parts.collect::<Vec<_>>().join(",");
        let mark = if charge.mode == tollgate_core::Mode::Shadow { "?" } else { "" };
        format!("{}({key}){mark}={}*{}", charge.key.rule, charge.limit.limit(), charge.cost)
    }));
    words.join(" ")
}
