//! What can be typed after `tollgate rules import`.

use clap::{Args, ValueEnum};

/// Arguments of `tollgate rules import`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate rules import --from envoy config/ > policy.yaml
  tollgate rules import --from nginx /etc/nginx/nginx.conf > policy.yaml

Standard error tells what the policy does not say as the files do. The exit code is 0, or 2 if a file \
cannot be used.")]
pub(crate) struct ImportArguments {
    /// Whose files they are.
    #[arg(long, value_name = "LIMITER")]
    pub(crate) from: ImportSource,

    /// One JSON object: the policy, and notes on where it differs from the files.
    #[arg(long)]
    pub(crate) json: bool,

    /// Files, and folders of .yaml, .yml or .conf files; `-` is standard input. What a configuration
    /// of nginx includes is read too.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<String>,
}

/// Whose files are imported.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ImportSource {
    /// The configuration of envoyproxy/ratelimit.
    Envoy,
    /// The configuration of nginx: `limit_req`.
    Nginx,
}
