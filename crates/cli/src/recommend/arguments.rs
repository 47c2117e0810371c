//! What can be typed after `tollgate recommend`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tollgate::identity::Secret;
use tollgate::rules::parse_window;
use tollgate_simulate::Percent;

use crate::arguments::{ServerArguments, parse_time};
use crate::simulate::ReadingArguments;

/// Arguments of `tollgate recommend`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate recommend access.log
  tollgate recommend --headroom 50% --refuse-at-most 1% access.log -o policy.yaml
  tollgate simulate --rules policy.yaml access.log
  tollgate recommend --live --server http://127.0.0.1:8080

Each limit is what all but --refuse-at-most of the requests needed, and the headroom on top. The \
figures are those of a replay, so `simulate` shows the same for the same traffic.

With --live, a server proposes limits by the requests that it keeps (its setting recent_traffic).

The exit code is 0, 1 if the server refuses, or 2 if input or output cannot be used.")]
pub(crate) struct RecommendArguments {
    /// How much more than needed each limit allows, in per cent.
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = parse_headroom)]
    pub(crate) headroom: Percent,

    /// The largest share of requests that the proposed rules may refuse, all together: 0.5%, or 0.5, which is per
    /// cent too.
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = parse_share)]
    pub(crate) refuse_at_most: Percent,

    /// The window of the limits: 10s, 1m, 1h.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_length)]
    pub(crate) window: String,

    /// The most endpoints that get a limit.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) endpoints: usize,

    /// Write the policy into this file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print the policy instead of the table.
    #[arg(long, conflicts_with = "json")]
    pub(crate) yaml: bool,

    /// Print the proposed rules and their figures as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,

    #[command(flatten)]
    pub(crate) live: LiveArguments,

    /// Access logs or traces, also gzipped; `-` is standard input.
    #[arg(required_unless_present = "live", conflicts_with = "live", value_name = "INPUT")]
    pub(crate) inputs: Vec<String>,
}

/// The server that is asked instead of a log.
#[derive(Args, Debug)]
pub(crate) struct LiveArguments {
    /// Ask a running server, which looks at its recent requests, instead of a log.
    #[arg(long)]
    pub(crate) live: bool,

    /// The server to ask with --live.
    #[arg(
        long,
        value_name = "URL",
        env = "TOLLGATE_SERVER",
        default_value = "http://127.0.0.1:8080"
    )]
    server: String,

    /// The token that the server requires, of a viewer or a tenant-admin. Without one, that of
    /// `TOLLGATE_ADMIN_TOKEN` is sent.
    #[arg(long, value_name = "TOKEN", env = "TOLLGATE_TOKEN", hide_env_values = true)]
    token: Option<Secret>,

    /// A file with the token.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Trust servers with a certificate of these authorities, in PEM format, instead of those that
    /// the system trusts.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// How long to wait for the server: 500ms, 30s.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    timeout: Duration,
}

impl LiveArguments {
    /// The server to ask.
    pub(super) fn to_server(&self) -> ServerArguments {
        ServerArguments {
            server: self.server.clone(),
            token: self.token.clone(),
            token_file: self.token_file.clone(),
            ca: self.ca.clone(),
            timeout: self.timeout,
            json: false,
        }
    }
}

fn parse_headroom(text: &str) -> Result<Percent, String> {
    Percent::parse(text, 1_000)
}

fn parse_share(text: &str) -> Result<Percent, String> {
    Percent::parse(text, 100)
}

/// A window, as it is written in policies.
fn parse_length(text: &str) -> Result<String, String> {
    parse_window(text)
        .map(|_| text.to_owned())
        .map_err(|_| "write it like 10s, 1m or 1h".to_owned())
}
