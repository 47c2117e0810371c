//! `tollgate serve`: puts settings, server and listeners together, and ends them in good order.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tollgate_server::listen::{Listener, Shutdown, ShutdownTrigger, Tls};
use tollgate_server::settings::{Effective, ListenAddress, LogFormat, Settings, exposure};
use tollgate_server::{App, Gateway, Service};
use tracing::{info, warn};

use crate::failure::Failure;
use crate::log;
use crate::notify;
use crate::settings::ServeArguments;
use crate::summary::Summary;
use crate::traces::SpanPipeline;

/// How often files are checked for changes, and expired counters are removed.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(2);

/// How long writing the last records of decisions may take.
const LAST_RECORDS_TIMEOUT: Duration = Duration::from_secs(2);

/// What a shell reports for a process that a second Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Serves until a signal ends it.
pub(crate) fn run(arguments: &ServeArguments) -> Result<ExitCode, Failure> {
    let effective = arguments.settings.load()?;
    log::start(&effective)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::usage(format!("cannot start threads: {error}")))?;
    let code = runtime.block_on(run_server(&effective));
    // A file system that hangs must not keep the process from ending.
    runtime.shutdown_background();
    code
}

async fn run_server(effective: &Effective) -> Result<ExitCode, Failure> {
    let settings = &effective.settings;
    let refused = |error: &dyn Display| Failure::usage(error.to_string());
    let mut signals = Signals::new()?;
    // Whatever can fail comes before the catalog is opened, and the first admin token is made last: it is
    // shown once, so a start that fails must not have made it.
    let tls = settings.tls.clone().map(Tls::load).transpose().map_err(|error| refused(&error))?;
    let tls = tls.map(Arc::new);
    let public = bind(settings.http, "--http", tls.as_ref(), settings).await?;
    let admin = match settings.admin {
        Some(address) => Some(bind(address, "--admin", tls.as_ref(), settings).await?),
        None => None,
    };
    let grpc = bind(settings.grpc.clone(), "--grpc", tls.as_ref(), settings).await?;
    let gateway = match &settings.gateway {
        Some(gateway) => Some(bind(gateway.address, "--gateway", tls.as_ref(), settings).await?),
        None => None,
    };
    let traces = SpanPipeline::start(&settings.otlp)?;
    let app = App::new(settings).await.map_err(|error| refused(&error))?;
    let app = Arc::new(match &traces {
        Some(traces) => app.with_traces(traces.tracer()),
        None => app,
    });
    let token = match app.first_admin_token(settings).await {
        Ok(token) => token,
        Err(error) => {
            app.close().await;
            return Err(refused(&error));
        }
    };
    for warning in exposure::warnings(effective) {
        warn!("{warning}");
    }
    app.report_readiness();
    let summary = Summary {
        app: &app,
        effective,
        token,
        public: &public,
        admin: admin.as_ref(),
        grpc: &grpc,
        gateway: gateway.as_ref(),
    };
    // Standard output may be closed already.
    let _ = match settings.log {
        LogFormat::Text => write!(io::stdout().lock(), "{summary}"),
        // Where programs read the log, they read this too.
        LogFormat::Json => writeln!(io::stdout().lock(), "{}", summary.to_json()),
    };
    summary.log();

    let (trigger, shutdown) = Shutdown::new();
    let (last_decision, records) = spawn_records(&app);
    tokio::spawn(upkeep(Arc::clone(&app), shutdown.clone()));
    tokio::spawn(follow(Arc::clone(&app), shutdown.clone()));
    tokio::spawn(punish(Arc::clone(&app), shutdown.clone()));
    if let Some(tls) = tls {
        tokio::spawn(tls.follow_files(UPKEEP_INTERVAL, shutdown.clone()));
    }
    let admin =
        admin.map(|listener| Service::Admin(Arc::clone(&app)).spawn(listener, shutdown.clone()));
    let grpc = Service::Grpc(Arc::clone(&app)).spawn(grpc, shutdown.clone());
    let grace = settings.limits.shutdown_grace;
    let gateway = gateway.zip(app.gateway().cloned()).map(|(listener, gateway)| {
        tokio::spawn(forward(listener, gateway, shutdown.clone(), grace))
    });
    let public = Service::Public(Arc::clone(&app)).spawn(public, shutdown);
    notify::ready();

    signals.end(&app).await;
    app.set_draining();
    notify::stopping();
    trigger.announce();
    let delay = settings.limits.shutdown_delay;
    if !delay.is_zero() {
        info!("ending: not ready any more, but taking traffic for {delay:?}");
        // A second signal ends the wait.
        tokio::select! {
            () = sleep(delay) => {}
            () = signals.end(&app) => {}
        }
    }
    info!("ending: finishing what has begun");
    app.end_streams();
    trigger.request();
    let finished = async {
        // Not after the last connection: from now on this node announces nothing, and would be silent.
        app.leave_fleet().await;
        let on_public = public.await.unwrap_or_default();
        let on_admin = match admin {
            Some(admin) => admin.await.unwrap_or_default(),
            None => 0,
        };
        let on_grpc = grpc.await.unwrap_or_default();
        let on_gateway = match gateway {
            Some(gateway) => gateway.await.unwrap_or_default(),
            None => 0,
        };
        last_decision.request();
        // Records that are not written by then are lost.
        let _ = timeout(LAST_RECORDS_TIMEOUT, records).await;
        if let Some(traces) = &traces {
            traces.end().await;
        }
        app.close().await;
        on_public + on_admin + on_grpc + on_gateway
    };
    tokio::select! {
        cut_off = finished => {
            match cut_off {
                0 => info!("ended"),
                cut_off => warn!(connections = cut_off, "ended: connections were cut off"),
            }
            Ok(ExitCode::SUCCESS)
        }
        () = signals.end(&app) => {
            if let Some(traces) = &traces {
                traces.abandon();
            }
            warn!("ended at once");
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

async fn bind(
    address: impl Into<ListenAddress>,
    flag: &str,
    tls: Option<&Arc<Tls>>,
    settings: &Settings,
) -> Result<Listener, Failure> {
    let listener = Listener::bind(address, tls.cloned(), &settings.limits).await;
    listener.map_err(|error| Failure::usage(format!("{error}; choose another with {flag}")))
}

/// Forwards requests until the end, and upgraded connections for a while longer. Says how many
/// connections were cut off.
async fn forward(
    listener: Listener,
    gateway: Gateway,
    shutdown: Shutdown,
    grace: Duration,
) -> usize {
    let upgrades = gateway.clone();
    let ended = shutdown.clone();
    let upgraded = async {
        ended.requested().await;
        upgrades.end_upgrades(grace).await
    };
    let connections = Service::Gateway(Arc::new(gateway)).spawn(listener, shutdown);
    let (connections, upgrades) = tokio::join!(connections, upgraded);
    connections.unwrap_or_default() + upgrades
}

/// Writes records of decisions, up to the last one.
fn spawn_records(app: &Arc<App>) -> (ShutdownTrigger, JoinHandle<()>) {
    let (last_decision, ending) = Shutdown::new();
    let app = Arc::clone(app);
    (last_decision, tokio::spawn(async move { app.keep_records(&ending).await }))
}

/// Runs periodic work. Files and sweeps take time, so threads that serve requests do not do it.
async fn upkeep(app: Arc<App>, shutdown: Shutdown) {
    let (mut key_failure, mut evictions_logged) = (None, 0_u64);
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            () = sleep(UPKEEP_INTERVAL) => {}
        }
        let failure = app.key_failure();
        if failure != key_failure {
            match &failure {
                Some(failure) => warn!("the keys of tokens cannot be fetched: {failure}"),
                None => info!("the keys of tokens can be fetched again"),
            }
            key_failure = failure;
        }
        // Logged when it begins, and whenever it has doubled.
        let evictions = app.exhausted_evictions();
        if evictions > evictions_logged.saturating_mul(2) {
            warn!(
                evictions,
                "memory is full of counters that are used up: clients at their limit were evicted and start anew; \
                 raise `memory`"
            );
            evictions_logged = evictions;
        }
        let app = Arc::clone(&app);
        let done = spawn_blocking(move || {
            app.reload_if_changed();
            app.sweep();
        });
        if let Err(error) = done.await {
            warn!(%error, "upkeep failed");
        }
    }
}

/// Keeps up with the catalog and with the fleet that a shared store belongs to, and keeps figures.
async fn follow(app: Arc<App>, shutdown: Shutdown) {
    tokio::select! {
        () = shutdown.requested() => {}
        ((), (), (), ()) = async {
            let (catalog, store) = (app.follow_catalog(), app.keep_store());
            tokio::join!(catalog, store, app.exchange_journals(), app.keep_figures())
        } => {}
    }
}

/// Bans clients that keep exceeding limits.
async fn punish(app: Arc<App>, shutdown: Shutdown) {
    tokio::select! {
        () = shutdown.requested() => {}
        () = app.punish() => {}
    }
}

/// The signals of the operating system.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::usage(format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal that ends the server, and reloads the rules on SIGHUP.
    async fn end(&mut self, app: &Arc<App>) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hang_up.recv() => {
                    let app = Arc::clone(app);
                    spawn_blocking(move || app.reload());
                }
            }
        }
    }
}
