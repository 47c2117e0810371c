//! Settings from the command line, and `tollgate config`, which shows them all.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, json};
use tollgate_server::settings::{Effective, RefusedSettings, Settings, variable};

use crate::failure::Failure;

/// Flags that every command with settings takes. They are texts here: settings parse them, so that
/// all problems are reported at once.
#[derive(Args, Debug)]
pub(crate) struct SettingsArguments {
    /// Read settings from this file, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where the check API listens; port 0 takes any free one [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,

    /// Where the admin API listens, if apart from the check API.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,

    /// Where gRPC and Envoy's rate limit service listen; port 0 takes any free one, unix:PATH is a Unix socket
    /// [default: 127.0.0.1:8081].
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<String>,

    /// Forward requests that pass to this URL; may be given several times
    /// for equal upstreams.
    #[arg(long, value_name = "URL")]
    upstream: Vec<String>,

    /// Where requests to be forwarded arrive; port 0 takes any free one [default: 127.0.0.1:8000].
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<String>,

    /// The policy, which is read again when it changes; instead of a catalog.
    #[arg(long, value_name = "FILE")]
    rules: Option<String>,

    /// Where rules and all that operators write are: sqlite:FILE or the URL of a PostgreSQL
    /// [default: sqlite:tollgate.db].
    #[arg(long, value_name = "URL")]
    catalog: Option<String>,

    /// The file that this node starts from when PostgreSQL is away [default: tollgate-copy.db].
    #[arg(long, value_name = "FILE")]
    catalog_copy: Option<String>,

    /// A directory with files of envoyproxy/ratelimit, which are read again when they change.
    #[arg(long, value_name = "DIRECTORY")]
    envoy_config: Option<String>,

    /// Where counters live [default: memory:].
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// The most memory that counters may take [default: 256MiB].
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,

    /// How callers of the check API are known: none, token, mtls. Must be chosen if other machines
    /// can reach it.
    #[arg(long, value_name = "KIND")]
    check_auth: Option<String>,

    /// A file with the token for the check API.
    #[arg(long, value_name = "FILE")]
    check_token_file: Option<String>,

    /// A file with the token for the admin API. Without one, a token is made up and printed.
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<String>,

    /// What log lines look like: text, json [default: text].
    #[arg(long, value_name = "FORMAT")]
    log: Option<String>,

    /// The least that is worth a log line: error, warn, info, debug, trace [default: info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,

    /// The collector that traces are sent to, with OTLP over gRPC.
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,

    /// The certificate of this server, in PEM format.
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<String>,

    /// The private key of the certificate, in PEM format.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,

    /// The authorities whose client certificates are accepted, in PEM format.
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<String>,
}

/// Arguments of `tollgate serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
Flags win over environment variables (TOLLGATE_HTTP for --http), those over the settings file, which \
knows more settings than there are flags. TOLLGATE_ADMIN_TOKEN and TOLLGATE_CHECK_TOKEN hold tokens. \
SIGHUP reads the rules again; SIGTERM and Ctrl-C finish what has begun, a second Ctrl-C does not.

Examples:
  tollgate serve
  tollgate serve --rules policy.yaml
  tollgate serve --rules policy.yaml --upstream http://127.0.0.1:3000
  tollgate serve --config tollgate.yaml --http 0.0.0.0:8080 --check-auth token

The exit code is 0 after SIGTERM or Ctrl-C, 130 after a second one, 2 if the server cannot start.")]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
}

/// Arguments of `tollgate config`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0, or 2 if a setting is wrong.")]
pub(crate) struct ConfigArguments {
    #[command(flatten)]
    settings: SettingsArguments,

    /// One JSON object.
    #[arg(long)]
    json: bool,

    /// Print the JSON schema of the settings file instead, for editors and checks.
    #[arg(long, exclusive = true)]
    schema: bool,
}

impl SettingsArguments {
    /// The settings in force for this command.
    pub(crate) fn load(&self) -> Result<Effective, Failure> {
        load(self.config.clone(), &self.flags())
    }

    /// The flags that were given, by the names of their settings.
    fn flags(&self) -> Vec<(&'static str, String)> {
        let upstreams = self.upstream.join(",");
        let upstreams = (!upstreams.is_empty()).then_some(upstreams);
        let flags = [
            ("http", &self.http),
            ("admin", &self.admin),
            ("grpc", &self.grpc),
            ("upstream", &upstreams),
            ("gateway.address", &self.gateway),
            ("rules", &self.rules),
            ("catalog", &self.catalog),
            ("catalog_copy", &self.catalog_copy),
            ("envoy_config", &self.envoy_config),
            ("store", &self.store),
            ("memory", &self.memory),
            ("check_auth", &self.check_auth),
            ("check_token_file", &self.check_token_file),
            ("admin_token_file", &self.admin_token_file),
            ("log", &self.log),
            ("log_level", &self.log_level),
            ("otlp.endpoint", &self.otlp_endpoint),
            ("tls.certificate", &self.tls_certificate),
            ("tls.key", &self.tls_key),
            ("tls.client_ca", &self.tls_client_ca),
        ];
        flags.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// The settings in force with these flags, which are given by the names of their settings.
pub(crate) fn load(
    config: Option<PathBuf>,
    flags: &[(&'static str, String)],
) -> Result<Effective, Failure> {
    let (environment, file) = sources(config);
    Settings::load(flags, &environment, file.as_deref()).map_err(|refused| unusable(&refused))
}

/// Where the check API of a server with these settings listens, and whether with TLS.
pub(crate) fn load_check_api(config: Option<PathBuf>) -> Result<(SocketAddr, bool), Failure> {
    let (environment, file) = sources(config);
    let loaded = Settings::load_check_api(&[], &environment, file.as_deref());
    loaded.map(|(address, tls)| (address, tls.is_some())).map_err(|refused| unusable(&refused))
}

/// The variables of this program, and the settings file.
fn sources(config: Option<PathBuf>) -> (BTreeMap<String, String>, Option<PathBuf>) {
    let environment: BTreeMap<String, String> = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with("TOLLGATE_"))
        .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
        .collect();
    let in_environment = environment.get(&variable("config")).filter(|path| !path.is_empty());
    let file = config.or_else(|| in_environment.map(PathBuf::from));
    (environment, file)
}

fn unusable(refused: &RefusedSettings) -> Failure {
    match refused.0.as_slice() {
        [setting] => Failure::usage(setting.to_string()),
        _ => {
            let lines = refused.to_string().replace('\n', "\n  ");
            Failure::usage(format!("the settings cannot be used\n  {lines}"))
        }
    }
}

/// Prints every setting, its value and its origin; or the schema of the settings file.
pub(crate) fn print(arguments: &ConfigArguments) -> Result<ExitCode, Failure> {
    let mut output = io::stdout().lock();
    if arguments.schema {
        writeln!(output, "{:#}", Settings::schema())?;
        return Ok(ExitCode::SUCCESS);
    }
    let entries = arguments.settings.load()?.entries;
    if arguments.json {
        let object: Map<_, _> = entries
            .iter()
            .map(|entry| {
                let origin = entry.origin.to_string();
                (entry.name.to_owned(), json!({ "value": entry.value, "origin": origin }))
            })
            .collect();
        writeln!(output, "{:#}", serde_json::Value::Object(object))?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<[String; 3]> = entries
        .iter()
        .map(|entry| [entry.name.to_owned(), entry.text(), entry.origin.to_string()])
        .collect();
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let (names, values) = (width(0), width(1));
    for [name, value, origin] in &rows {
        writeln!(output, "{name:names$}  {value:values$}  {origin}")?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};
    use tollgate_server::settings::{FLAGGED, flag};

    use super::*;
    use crate::Arguments;

    /// A setting with a flag needs the flag in the arguments, and the other way round.
    #[test]
    fn every_flag_sets_its_setting() {
        let command = Arguments::command();
        let serve = command.find_subcommand("serve").expect("the command");
        for name in FLAGGED {
            let line = ["serve", &flag(name), "x"];
            let matches = serve.clone().try_get_matches_from(line).expect(name);
            let arguments = SettingsArguments::from_arg_matches(&matches).expect(name);
            assert_eq!(arguments.flags(), [(name, "x".to_owned())]);
        }
        let others = ["config", "help"];
        let flags = serve.get_arguments().filter_map(|argument| argument.get_long());
        let flags: Vec<&str> = flags.filter(|flag| !others.contains(flag)).collect();
        assert_eq!(flags.len(), FLAGGED.len(), "{flags:?}");
    }
}
