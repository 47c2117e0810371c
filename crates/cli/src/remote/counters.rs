//! `tollgate refund` and `tollgate reset`: what operators do about units that should not have been charged.

use std::process::ExitCode;

use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use tollgate_api::{Changed, DecisionBody};

use super::client::Remote;
use super::request::by_target;
use crate::arguments::{ServerArguments, TargetArguments};
use crate::failure::Failure;
use crate::output::print;
use crate::terminal::count;

const REFUND: &str = "/api/v1/rate-limit/refund";
const RESET: &str = "/api/v1/rate-limit/reset";

/// Arguments of `tollgate refund`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("refunded").args(["user_id", "api_key", "ip", "tenant", "endpoint", "attributes", "rule"])
    .multiple(true).required(true))]
#[command(after_help = "\
Examples:
  tollgate refund --user-id alice --method POST --endpoint /orders --cost 5
  tollgate refund --rule per_user alice

The cost of such a check goes to the newest window of every rule that applies. `tollgate decisions refund ID` \
refunds exactly what one decision charged, and only once.

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct RefundArguments {
    #[command(flatten)]
    target: TargetArguments,

    #[command(flatten)]
    server: ServerArguments,
}

/// Arguments of `tollgate reset`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("reset").args(["user_id", "api_key", "ip", "tenant", "endpoint", "attributes", "rule", "domain"])
    .multiple(true).required(true))]
#[command(after_help = "\
Examples:
  tollgate reset --user-id alice --method POST --endpoint /orders
  tollgate reset --rule per_user alice
  tollgate reset --domain shop --descriptor tenant=acme,path=/search

The counters of every rule that applies to such a request begin anew, and its bans by these rules are lifted. \
With --domain, the counters are those of limits in files of envoyproxy/ratelimit.

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct ResetArguments {
    #[command(flatten)]
    target: TargetArguments,

    /// The domain of a file of envoyproxy/ratelimit.
    #[arg(long, value_name = "DOMAIN", requires = "descriptors",
          conflicts_with_all = ["user_id", "api_key", "ip", "tenant", "endpoint", "method", "host", "tier", "attributes",
                                "cost", "rule"])]
    domain: Option<String>,

    /// With --domain: the keys and values of a request, separated by commas; may be repeated.
    #[arg(long = "descriptor", value_name = "KEY=VALUE,...", requires = "domain", value_parser = parse_descriptor)]
    descriptors: Vec<EnvoyDescriptor>,

    #[command(flatten)]
    server: ServerArguments,
}

/// One view of a request of Envoy: keys and values.
#[derive(Clone, Debug)]
struct EnvoyDescriptor(Vec<(String, String)>);

fn parse_descriptor(text: &str) -> Result<EnvoyDescriptor, String> {
    let entries = text.split(',').map(|entry| match entry.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it like tenant=acme,path=/search".to_owned()),
    });
    entries.collect::<Result<_, _>>().map(EnvoyDescriptor)
}

impl EnvoyDescriptor {
    fn body(&self) -> Value {
        let entry = |(key, value): &(String, String)| json!({ "key": key, "value": value });
        json!({ "entries": self.0.iter().map(entry).collect::<Vec<_>>() })
    }
}

/// Refunds what such a check costs.
pub(crate) fn refund(arguments: &RefundArguments) -> Result<ExitCode, Failure> {
    let RefundArguments { target, server } = arguments;
    let response = Remote::new(server)?.post::<Changed>(REFUND, &by_target(target))?;
    let done = format!("refunded to {}", counters(response.value));
    print(if server.json { &response.text } else { &done })?;
    Ok(ExitCode::SUCCESS)
}

/// Refunds what a decision charged.
pub(crate) fn refund_decision(id: &str, server: &ServerArguments) -> Result<ExitCode, Failure> {
    let body = DecisionBody { decision_id: id.into() };
    let response = Remote::new(server)?.post::<Changed>(REFUND, &body)?;
    let done = format!("refunded to {}", counters(response.value));
    print(if server.json { &response.text } else { &done })?;
    Ok(ExitCode::SUCCESS)
}

/// Resets the counters of such a check, or of a request of Envoy.
pub(crate) fn reset(arguments: &ResetArguments) -> Result<ExitCode, Failure> {
    let ResetArguments { target, domain, descriptors, server } = arguments;
    if target.request.cost.is_some() {
        return Err(Failure::usage("a reset has no --cost: it resets all that is in use"));
    }
    let remote = Remote::new(server)?;
    let response = match domain {
        Some(domain) => {
            let descriptors: Vec<Value> = descriptors.iter().map(EnvoyDescriptor::body).collect();
            let body = json!({ "domain": domain, "descriptors": descriptors });
            remote.post::<Changed>(RESET, &body)?
        }
        None => remote.post::<Changed>(RESET, &by_target(target))?,
    };
    let done = format!("reset {}", counters(response.value));
    print(if server.json { &response.text } else { &done })?;
    Ok(ExitCode::SUCCESS)
}

fn counters(changed: Changed) -> String {
    count(changed.counters as u64, "counter")
}
