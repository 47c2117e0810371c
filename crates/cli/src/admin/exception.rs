//! What an exception from a rule has, for a user or for any other client.

use clap::{ArgGroup, Args};
use serde_json::{Number, Value};
use tollgate::Micros;

use super::times::{EndArguments, parse_moment, parse_span};
use crate::terminal::printable;

/// The rule of an exception, and what is different from it.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").args(["limit", "window", "burst", "multiplier"]).multiple(true).required(true))]
pub(super) struct ExceptionArguments {
    /// The rule it is an exception from.
    #[arg(long, value_name = "RULE_ID")]
    rule: String,

    /// Another limit.
    #[arg(long, value_name = "N", conflicts_with = "multiplier")]
    limit: Option<u64>,

    /// Another window: 10s, 1h.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    window: Option<Micros>,

    /// Another burst.
    #[arg(long, value_name = "N", conflicts_with = "multiplier")]
    burst: Option<u64>,

    /// The limit and burst of the rule times this: 2, 0.5.
    #[arg(long, value_name = "FACTOR", value_parser = parse_factor)]
    multiplier: Option<Number>,

    /// When it begins: 2030-12-01T00:00:00Z; at once if not given.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    starts_at: Option<String>,

    #[command(flatten)]
    end: EndArguments,

    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

impl ExceptionArguments {
    /// The document of the exception, by the fields that name the client, and what to say once the client has it.
    pub(super) fn document(&self, client: Value, who: &str) -> (Value, String) {
        let Self { rule, limit, window, burst, multiplier, starts_at, end, dry_run: _ } = self;
        let seconds = window.map(|window| window.get() as f64 / 1e6);
        let end = end.end();
        let fields = [
            ("limit", limit.map(Value::from)),
            ("window_seconds", seconds.map(Value::from)),
            ("burst", burst.map(Value::from)),
            ("multiplier", multiplier.clone().map(Value::from)),
            ("starts_at", starts_at.clone().map(Value::from)),
            ("expires_at", end.clone().map(Value::from)),
        ];
        let mut document = client;
        document["rule_id"] = rule.as_str().into();
        for (name, value) in fields {
            if let Some(value) = value {
                document[name] = value;
            }
        }
        let until = end.map_or_else(String::new, |end| format!(" until {end}"));
        (document, format!("{who} has an exception from {}{until}", printable(rule)))
    }
}

/// What to say once a client has it no more.
pub(super) fn removed(client: &str, rule: &str) -> String {
    format!("the exception of {client} from {} was removed", printable(rule))
}

fn parse_factor(text: &str) -> Result<Number, String> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = text.parse().ok().filter(|_| is_decimal);
    number.ok_or_else(|| "write it like 2 or 0.5".to_owned())
}
