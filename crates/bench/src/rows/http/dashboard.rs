//! The dashboard of a busy server: how long each page takes, what open pages cost, and whether checks notice them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tollgate::Stopwatch;
use tollgate_instructions::{Client, policy_text, services};

use super::{CHECK_PATH, HttpStage};
use crate::Fallible;
use crate::row::{Bar, Row};
use crate::rows::load::{in_turns, median_of, need, spread, times_the_cost};
use crate::rows::server::{CLIENT_CORE, Running, Server, built, pinned};
use crate::scale::Scale;

const RULES: u32 = 1_000;
const KEYS: u64 = 100_000;
const TOKEN: &str = "tg_bench_0123456789abcdef0123456789abcdef";
const OPEN_PAGES: usize = 100;

const PAGES: [(&str, &str); 11] = [
    ("overview", "/?range=1h"),
    ("rules", "/ui/rules"),
    ("rule", "/ui/rules/r1"),
    ("new_rule", "/ui/new-rule"),
    ("clients", "/ui/clients"),
    ("client", "/ui/client?type=user_id&value=user-00000001"),
    ("live", "/ui/live"),
    ("try", "/ui/try"),
    ("audit", "/ui/audit"),
    ("lists", "/ui/lists"),
    ("health", "/ui/health"),
];

/// A server with a thousand rules and a hundred thousand active keys, and a session.
struct Dashboard {
    stage: HttpStage,
    server: Server,
    checks: std::path::PathBuf,
    cookie: String,
}

impl Dashboard {
    fn new(scale: &Scale) -> Fallible<Self> {
        need("curl", "curl")?;
        let stage = HttpStage::new(scale)?;
        let server = Server::with_catalog(stage.directory.path(), TOKEN)?;
        let file = stage.directory.path().join("policy.yaml");
        fs::write(&file, policy_text(RULES))?;
        let mut apply = pinned(CLIENT_CORE, built()?);
        apply.args(["rules", "apply", "--prune", "--yes", "--timeout", "60s", "--token", TOKEN]);
        apply.args(["--server", &format!("http://{}", server.address)]).arg("--file").arg(&file);
        if !apply.stdout(Stdio::null()).status()?.success() {
            return Err("the rules cannot be applied".into());
        }
        let clients = Client::all(u32::try_from(scale.of(KEYS))?, services(RULES));
        let body = |client: Client| {
            let Client { user_id, ip, tenant, path } = client;
            let identifiers = json!({"user_id": user_id, "ip": ip, "tenant": tenant});
            json!({"identifiers": identifiers, "endpoint": path, "method": "GET", "detail": false})
                .to_string()
        };
        let checks = stage.file("checks", clients.into_iter().map(body))?;
        let sign_in = format!("token={TOKEN}");
        let signed_in = exchange(server.address, "POST", "/ui/sign-in", "", &sign_in)?;
        let set = signed_in.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("set-cookie").then(|| value.trim())
        });
        let cookie = set.and_then(|set| set.split(';').next()).ok_or("no session was made")?;
        Ok(Self { cookie: cookie.to_owned(), stage, server, checks })
    }

    /// Milliseconds until a page is there.
    fn show(&self, path: &str) -> Fallible<f64> {
        let stopwatch = Stopwatch::start();
        let page = exchange(self.server.address, "GET", path, &self.cookie, "")?;
        let millis = stopwatch.elapsed().as_secs_f64() * 1e3;
        match page.starts_with("HTTP/1.1 200") {
            true => Ok(millis),
            false => Err(format!("{path}: {}", page.lines().next().unwrap_or_default()).into()),
        }
    }

    /// So many open overviews, until this is dropped.
    fn open(&self, pages: usize) -> Fallible<Running> {
        let url = format!("http://{}/ui/events?page=%2F", self.server.address);
        let mut curl = pinned(CLIENT_CORE, "curl");
        curl.args(["--silent", "--no-buffer", "--parallel", "--parallel-immediate"]);
        curl.args(["--parallel-max", &pages.to_string(), "--cookie", &self.cookie]);
        for _ in 0..pages {
            curl.args(["--output", "/dev/null", &url]);
        }
        Running::start(curl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
    }
}

/// One request and its response, on a connection of its own.
fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    cookie: &str,
    body: &str,
) -> Fallible<String> {
    let mut connection = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        connection,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nCookie: {cookie}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut response = Vec::new();
    connection.read_to_end(&mut response)?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

/// How long each page takes while the server is under load.
pub(crate) fn pages(scale: &Scale) -> Fallible<Vec<Row>> {
    let dashboard = Dashboard::new(scale)?;
    let Dashboard { stage, server, checks, .. } = &dashboard;
    // Every key is active, and figures of some seconds are there.
    stage.wrk.drive(server, CHECK_PATH, checks, 0)?;
    let mut rows = Vec::new();
    for (name, path) in PAGES {
        let millis =
            (0..stage.rounds).map(|_| dashboard.show(path)).collect::<Fallible<Vec<_>>>()?;
        let row =
            Row::figure(format!("dashboard/page/{name}"), median_of(&millis, |it| *it), " ms");
        let row = Row { spread: spread(millis.iter().copied()), ..row };
        rows.push(row.held_to(Bar::Below(200.0)));
    }
    Ok(rows)
}

/// What one open page takes of a processor, and what a hundred of them add to a check.
pub(crate) fn open_pages(scale: &Scale) -> Fallible<Vec<Row>> {
    let dashboard = Dashboard::new(scale)?;
    let Dashboard { stage, server, checks, .. } = &dashboard;
    let count = stage.wrk.unhurried(server, CHECK_PATH, checks)?;
    let span = Duration::from_millis(scale.of(10_000));
    let share = || {
        let before = server.processor_seconds()?;
        thread::sleep(span);
        Fallible::Ok((server.processor_seconds()? - before) / span.as_secs_f64() * 100.0)
    };
    let idle = share()?;
    let with_one = {
        let _page = dashboard.open(1)?;
        share()?
    };
    let drive = || stage.wrk.drive(server, CHECK_PATH, checks, count);
    let [with_pages, without] = in_turns(
        stage.rounds,
        [
            &|| {
                let _pages = dashboard.open(OPEN_PAGES)?;
                drive()
            },
            &drive,
        ],
    )?;
    let one = Row::figure("dashboard/open_page", with_one - idle, " %").with("idle_percent", idle);
    let hundred = times_the_cost("dashboard/100_open_pages", &with_pages, &without);
    Ok(vec![one.held_to(Bar::Below(2.0)), hundred.held_to(Bar::AtMost(1.03))])
}
