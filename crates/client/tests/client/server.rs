//! A server in this process, and clients of it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;
use tollgate_client::{Client, ClientBuilder};
use tollgate_server::listen::{Listener, Shutdown, ShutdownTrigger, Tls};
use tollgate_server::settings::Settings;
use tollgate_server::{App, Service};
use tollgate_testbed::WAIT_TIMEOUT;

pub(crate) const ADMIN_TOKEN: &str = "admin-squeamish-ossifrage";

pub(crate) const POLICY: &str = "
rules:
  - {rule_id: per_user, limit: 3, window: 1h, identifier_type: user_id, algorithm: gcra}
  - {rule_id: per_address, limit: 2, window: 1h, identifier_type: ip, algorithm: gcra}
  - {rule_id: per_plan, limit: 1000, window: 1h, identifier_type: 'attribute:plan', algorithm: gcra}
  - {rule_id: minutes, limit: 5, window: 1m, identifier_type: user_id, applies_to: {endpoints: [/minutes]}}
  - {rule_id: burst, limit: 10, burst: 50, window: 1s, identifier_type: user_id, algorithm: gcra,
     applies_to: {endpoints: [/burst]}}
  - {rule_id: smooth, limit: 1, burst: 4, window: 1s, identifier_type: tenant, algorithm: leaky_bucket}
blacklist: [{identifier_type: api_key, identifier: stolen}]
";

/// The protocols, which are to behave alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Grpc,
}

pub(crate) const PROTOCOLS: [Protocol; 2] = [Protocol::Http, Protocol::Grpc];

impl Protocol {
    /// A client of this server, with a long timeout.
    pub(crate) fn builder(self, url: &str) -> ClientBuilder {
        let builder = Client::builder(url).timeout(WAIT_TIMEOUT);
        match self {
            Self::Http => builder,
            Self::Grpc => builder.grpc(),
        }
    }
}

/// A server in this process, until it is dropped.
pub(crate) struct Server {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    scheme: &'static str,
    /// What it reads; it must outlive the server.
    pub(crate) folder: TempDir,
    trigger: Option<ShutdownTrigger>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(|_, _| {})
    }

    pub(crate) fn start_with(change: impl FnOnce(&mut Settings, &Path)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut settings = Settings {
            http: any_port,
            grpc: any_port.into(),
            rules: Some(folder.path().join("policy.yaml")),
            admin_token: Some(ADMIN_TOKEN.into()),
            ..Settings::default()
        };
        // Clients that are cut off need no grace.
        settings.limits.shutdown_grace = Duration::ZERO;
        fs::write(folder.path().join("policy.yaml"), POLICY).expect("written");
        change(&mut settings, folder.path());
        let (trigger, shutdown) = Shutdown::new();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let app = Arc::new(App::new(&settings).await.expect("an app"));
                let tls = settings.tls.clone();
                let tls = tls.map(|files| Arc::new(Tls::load(files).expect("certificates")));
                let http = Listener::bind(settings.http, tls.clone(), &settings.limits).await;
                let grpc = Listener::bind(settings.grpc.clone(), tls, &settings.limits).await;
                let (http, grpc) = (http.expect("a port"), grpc.expect("a port"));
                let addresses = (http.scheme(), http.address(), grpc.address());
                tell.send(addresses).expect("the receiver is alive");
                let public = Service::Public(Arc::clone(&app)).spawn(http, shutdown.clone());
                let calls = Service::Grpc(app).spawn(grpc, shutdown);
                let (public, calls) = tokio::join!(public, calls);
                let cut_off = public.and_then(|public| Ok(public + calls?));
                assert!(cut_off.is_ok(), "{cut_off:?}");
            });
        });
        let (scheme, http, grpc) = told.recv().expect("the server starts");
        Self { http, grpc, scheme, folder, trigger: Some(trigger), thread: Some(thread) }
    }

    pub(crate) fn address(&self, protocol: Protocol) -> SocketAddr {
        match protocol {
            Protocol::Http => self.http,
            Protocol::Grpc => self.grpc,
        }
    }

    pub(crate) fn url(&self, protocol: Protocol) -> String {
        format!("{}://localhost:{}", self.scheme, self.address(protocol).port())
    }

    pub(crate) fn client(&self, protocol: Protocol) -> Client {
        protocol.builder(&self.url(protocol)).build().expect("a client")
    }

    /// The figures of the server whose lines begin so, together.
    pub(crate) fn metric(&self, beginning: &str) -> u64 {
        let mut stream = TcpStream::connect(self.http).expect("a connection");
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let figures = answer.lines().filter_map(|line| line.strip_prefix(beginning));
        let figures = figures.filter_map(|rest| rest.rsplit(' ').next()?.parse::<u64>().ok());
        figures.sum()
    }

    /// How many calls with checks succeeded.
    pub(crate) fn calls(&self, protocol: Protocol) -> u64 {
        match protocol {
            Protocol::Http => self.metric("tollgate_http_responses_total{status=\"2xx\"}"),
            Protocol::Grpc => self.metric("tollgate_grpc_responses_total{code=\"OK\"}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.trigger.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server has been printed already.
            let _ = thread.join();
        }
    }
}
