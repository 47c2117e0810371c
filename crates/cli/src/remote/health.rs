//! `tollgate health`: whether the server on this machine is ready, for the probes of containers, whose
//! images have no shell and no curl.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use http::StatusCode;
use serde::Deserialize;
use tollgate::Stopwatch;

use super::client::Remote;
use crate::arguments::parse_time;
use crate::failure::Failure;
use crate::output::print;
use crate::settings::load_check_api;
use crate::terminal::printable;

/// How long to wait before a server is asked again.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The path of readiness.
const READY: &str = "/health/ready";

/// Arguments of `tollgate health`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate health
  tollgate health --config /etc/tollgate/tollgate.yaml
  tollgate health --url https://limits.example:8443 --ca ca.pem
  tollgate health --wait 30 && tollgate check --user-id alice

The exit code is 0 if the server is ready, 1 if it is not (with --wait: not in time) or does not \
respond, 2 if it cannot be asked. No token is sent, and of the settings only the address and TLS are read.")]
pub(crate) struct HealthArguments {
    /// The server [default: the address that `serve` would listen on with the same settings file and
    /// variables].
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    url: Option<String>,

    /// The settings file of the server.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Trust servers with a certificate of these authorities, in PEM format, instead of those that
    /// the system trusts.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Wait until the server is ready, for so many seconds at most: 30, 500ms, 1m.
    #[arg(long, value_name = "SECONDS", value_parser = parse_time)]
    wait: Option<Duration>,

    /// How long to wait for a response: 500ms, 2s.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_time)]
    timeout: Duration,
}

/// What a server says of itself.
#[derive(Deserialize)]
struct HealthBody {
    status: String,
}

/// Asks a server whether it is ready, until it is or the time is over.
pub(crate) fn health(arguments: &HealthArguments) -> Result<ExitCode, Failure> {
    let url = match &arguments.url {
        Some(url) => url.clone(),
        None => local_url(load_check_api(arguments.config.clone())?),
    };
    let wait = arguments.wait.unwrap_or_default();
    let waited = Stopwatch::start();
    loop {
        let left = wait.saturating_sub(waited.elapsed());
        // The last attempt takes no longer than the others, and never no time at all.
        let timeout = match arguments.wait {
            Some(_) => arguments.timeout.min(left.max(RETRY_INTERVAL)),
            None => arguments.timeout,
        };
        let remote = Remote::without_token(&url, arguments.ca.as_deref(), timeout);
        match ask(&remote.map_err(of_url)?, &url) {
            Err(Failure::Refused(_)) if !left.is_zero() => sleep(RETRY_INTERVAL.min(left)),
            result => return result,
        }
    }
}

/// The flag of other commands has another name here.
fn of_url(failure: Failure) -> Failure {
    match failure {
        Failure::Usage(why) => Failure::Usage(why.replace("(--server)", "(--url)")),
        other => other,
    }
}

fn ask(remote: &Remote, url: &str) -> Result<ExitCode, Failure> {
    // To a probe, a server that does not respond is not ready.
    let response = remote.response(READY).map_err(|failure| match of_url(failure) {
        Failure::Usage(why) => Failure::Refused(why),
        other => other,
    })?;
    let status = response.status();
    let body: Option<HealthBody> = serde_json::from_slice(response.body()).ok();
    match body {
        Some(body) if status == StatusCode::OK => {
            print(&printable(&body.status))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(body) => Err(Failure::refused(format!(
            "the server is not ready: {} ({url})",
            printable(&body.status)
        ))),
        None => Err(Failure::refused(format!(
            "{url} answered {status}. Is it a Tollgate server? (--url)"
        ))),
    }
}

/// How this machine reaches a check API that listens there, maybe with TLS.
fn local_url((mut address, has_tls): (SocketAddr, bool)) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let scheme = if has_tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}
