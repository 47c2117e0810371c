//! Where log lines go, and which are written at all.

use std::env;
use std::io::{IsTerminal as _, stderr};

use tollgate_server::settings::{Effective, LogFormat, Origin};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, registry};

use crate::failure::Failure;

/// Libraries log more than operators want to read; `RUST_LOG` can still turn it on. That of HTTP/2 warns of every connection
/// that resets its streams, so that clients could fill the log.
const QUIET: &str = "h2=error,hyper=warn,hyper_util=warn,tonic=warn,tower=warn,rustls=warn";
/// The variable that loggers of Rust programs read.
const VARIABLE: &str = "RUST_LOG";

/// Starts to write log lines to standard error.
pub(crate) fn start(effective: &Effective) -> Result<(), Failure> {
    let lines = fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal());
    let filtered = registry().with(filter(effective)?);
    let started = match effective.settings.log {
        LogFormat::Text => filtered.with(lines.with_target(false)).try_init(),
        LogFormat::Json => filtered.with(lines.json().flatten_event(true)).try_init(),
    };
    started.map_err(|error| Failure::usage(format!("cannot write log lines: {error}")))
}

/// A flag wins over `RUST_LOG`, which wins over everything else. By target and level only: to filter by the fields of
/// spans, which we do not log, takes a regex engine.
fn filter(effective: &Effective) -> Result<Targets, Failure> {
    let is_chosen = matches!(effective.origin("log_level"), Origin::Flag(_));
    let directives = env::var(VARIABLE).ok().filter(|text| !text.is_empty() && !is_chosen);
    let level = effective.settings.log_level.name();
    let directives = directives.unwrap_or_else(|| format!("{level},{QUIET}"));
    directives
        .parse()
        .map_err(|error| Failure::usage(format!("{VARIABLE} cannot be used: {error}")))
}
