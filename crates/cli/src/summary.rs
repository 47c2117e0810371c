//! What `tollgate serve` says when it has started: for people, for programs, and for the log.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};
use tollgate_server::App;
use tollgate_server::listen::Listener;
use tollgate_server::settings::{CheckAuth, Effective, Origin, Settings};
use tracing::info;

/// What runs where, and what to do next.
pub(crate) struct Summary<'a> {
    pub(crate) app: &'a App,
    pub(crate) effective: &'a Effective,
    /// The admin token, if this start made it.
    pub(crate) token: Option<String>,
    pub(crate) public: &'a Listener,
    pub(crate) admin: Option<&'a Listener>,
    pub(crate) grpc: &'a Listener,
    pub(crate) gateway: Option<&'a Listener>,
}

impl Summary<'_> {
    /// The same as one object, without the call to try.
    pub(crate) fn to_json(&self) -> Value {
        let settings = &self.effective.settings;
        let counters = if settings.store.is_shared() {
            settings.store.to_string()
        } else {
            format!("memory, at most {}", settings.memory)
        };
        json!({
            "http": url(self.public),
            "admin": self.admin.map(url),
            "grpc": url(self.grpc),
            "gateway": self.gateway.map(url),
            "dashboard": self.dashboard(),
            "counters": counters,
            "rules": self.app.policy_summary(),
            "token": self.token,
        })
    }

    /// The address of the dashboard, if there is one.
    fn dashboard(&self) -> Option<String> {
        let listener = self.admin.unwrap_or(self.public);
        let is_shown = self.effective.settings.dashboard && listener.unix_path().is_none();
        is_shown.then(|| format!("{}/", url(listener)))
    }

    /// Writes the line of the log that the start is complete. The token is in no log line.
    pub(crate) fn log(&self) {
        info!(
            version = env!("CARGO_PKG_VERSION"),
            http = url(self.public),
            admin = self.admin.map(url),
            grpc = url(self.grpc),
            gateway = self.gateway.map(url),
            "started"
        );
    }
}

impl Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { app, effective, token, public, admin, grpc, gateway } = self;
        let settings = &effective.settings;
        let public_url = url(public);
        let admin_here = if admin.is_some() { "" } else { "admin API, " };
        let everywhere = reach(public);
        writeln!(f, "http      {public_url}{everywhere}  check API, {admin_here}/metrics, /docs")?;
        if let Some(admin) = admin {
            writeln!(f, "admin     {}{}  admin API, /metrics, /docs", url(admin), reach(admin))?;
        }
        if let Some(dashboard) = self.dashboard() {
            writeln!(f, "dashboard {dashboard}  open it in a browser")?;
        }
        writeln!(
            f,
            "grpc      {}{}  check API, Envoy's rate limit service",
            url(grpc),
            reach(grpc)
        )?;
        if let Some(gateway) = gateway {
            writeln!(f, "gateway   {}{}  {}", url(gateway), reach(gateway), targets(settings))?;
        }
        if settings.store.is_shared() {
            writeln!(f, "counters  in {}", settings.store)?;
        } else {
            writeln!(f, "counters  in memory, at most {}", settings.memory)?;
        }
        writeln!(f, "rules     {}", app.policy_summary())?;
        if let Some(envoy) = app.envoy_summary() {
            writeln!(f, "envoy     {envoy}")?;
        }
        let what = if self.dashboard().is_some() { " and the dashboard" } else { "" };
        match (token, app.catalog_url()) {
            (Some(token), None) => {
                writeln!(f, "token     {token}  for the admin API{what}, until the server ends")?;
                writeln!(f, "          (TOLLGATE_ADMIN_TOKEN sets one that stays)")?;
            }
            (Some(token), Some(_)) => {
                writeln!(f, "token     {token}  for the admin API{what}")?;
                writeln!(
                    f,
                    "          (keep it: it is shown this once, and only its digest is kept)"
                )?;
            }
            (None, Some(catalog)) if settings.added_admin_token().is_none() => {
                if settings.admin_token.is_some() {
                    writeln!(
                        f,
                        "token     TOLLGATE_ADMIN_TOKEN was made by a catalog: it is valid only"
                    )?;
                    writeln!(f, "          while this catalog has it; this makes another:")?;
                } else {
                    writeln!(f, "token     there is an admin token already; this makes another:")?;
                }
                // The URL of a shared catalog is shown without its user and password.
                let url = if catalog.is_shared() { "URL".to_owned() } else { catalog.to_string() };
                writeln!(f, "          tollgate tokens create --role admin --catalog {url}")?;
            }
            (None, _) => {}
        }
        let token = match settings.check_auth {
            CheckAuth::None => String::new(),
            CheckAuth::Token => format!(" -H \"Authorization: Bearer {}\"", check_token(effective)),
            CheckAuth::Mtls => " --cert CERTIFICATE --key KEY".to_owned(),
        };
        let (path, body) = app.example();
        writeln!(f, "try       curl {public_url}{path}{token} \\")?;
        writeln!(f, "            -H 'Content-Type: application/json' \\")?;
        writeln!(f, "            -d '{body}'")
    }
}

/// How a shell gets the token for the check API: from the file that has it, or else from the variable.
fn check_token(effective: &Effective) -> String {
    let setting = effective.entries.iter().find(|setting| setting.name == "check_token_file");
    match setting.filter(|setting| setting.origin != Origin::Default) {
        Some(file) => format!("$(cat '{}')", file.text().replace('\'', "'\\''")),
        None => "$TOLLGATE_CHECK_TOKEN".to_owned(),
    }
}

/// Where requests are forwarded to, in a few words.
fn targets(settings: &Settings) -> String {
    let Some(gateway) = &settings.gateway else { return String::new() };
    let routes = gateway.config.routes.len();
    let upstreams: Vec<String> = gateway.config.upstreams.iter().map(ToString::to_string).collect();
    let routes = match routes {
        0 => None,
        1 => Some("1 route".to_owned()),
        routes => Some(format!("{routes} routes")),
    };
    let upstreams = (!upstreams.is_empty()).then(|| upstreams.join(", "));
    let targets: Vec<String> = routes.into_iter().chain(upstreams).collect();
    format!("forwards to {}", targets.join(", else "))
}

/// Who else reaches it.
fn reach(listener: &Listener) -> &'static str {
    if listener.address().ip().is_unspecified() { " (on all addresses)" } else { "" }
}

/// How this machine reaches a listener.
fn url(listener: &Listener) -> String {
    if let Some(path) = listener.unix_path() {
        return format!("unix:{}", path.display());
    }
    let mut address = listener.address();
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("{}://{address}", listener.scheme())
}
