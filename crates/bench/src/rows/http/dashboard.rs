//! The dashboard of a busy server: how long each page takes, what open pages cost, and whether checks notice them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
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
const OPEN_PAGES: u64 = 100;
/// Those that are open: the first ones, in turns.
const OPENED: [&str; 2] = ["/", "/ui/live"];
/// How long open pages may take until all of them have figures: they are rendered one after the other, with pauses.
const FIRST_EVENTS_TIMEOUT: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How many lines of an access log are replayed.
const LOG_LINES: usize = 1_000;
const FORM: &str = "Content-Type: application/x-www-form-urlencoded";
const BOUNDARY: &str = "----bench7Kq3z9Yw0";

/// The pages that are shown by their addresses alone.
const PAGES: [(&str, &str); 17] = [
    ("overview", "/?range=1h"),
    ("rules", "/ui/rules"),
    ("rule", "/ui/rules/r1"),
    ("new_rule", "/ui/new-rule"),
    ("clients", "/ui/clients"),
    ("client", "/ui/client?type=user_id&value=user-00000001"),
    ("live", "/ui/live"),
    ("try", "/ui/try"),
    ("simulate", "/ui/simulate"),
    ("audit", "/ui/audit"),
    ("decisions", "/ui/audit?log=decisions"),
    ("lists", "/ui/lists"),
    ("deny_list", "/ui/lists?list=blacklist"),
    ("allow_list", "/ui/lists?list=whitelist"),
    ("overrides", "/ui/lists?list=overrides"),
    ("keys", "/ui/keys"),
    ("health", "/ui/health"),
];

/// A server with a thousand rules and a hundred thousand active keys, and a session.
struct Dashboard {
    stage: HttpStage,
    server: Server,
    checks: PathBuf,
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
        let signed_in = exchange(server.address, "POST", "/ui/sign-in", FORM, &sign_in)?;
        let set = signed_in.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("set-cookie").then(|| value.trim())
        });
        let cookie = set.and_then(|set| set.split(';').next()).ok_or("no session was made")?;
        Ok(Self { cookie: cookie.to_owned(), stage, server, checks })
    }

    /// Milliseconds until a page is there.
    fn show(&self, path: &str) -> Fallible<f64> {
        Self::timed(path, || self.get(path))
    }

    /// Milliseconds until the page that a form leads to is there.
    fn submit(&self, path: &str, content_type: &str, body: &str) -> Fallible<f64> {
        let fields = format!("Cookie: {}\r\n{content_type}", self.cookie);
        Self::timed(path, || exchange(self.server.address, "POST", path, &fields, body))
    }

    fn get(&self, path: &str) -> Fallible<String> {
        exchange(self.server.address, "GET", path, &format!("Cookie: {}", self.cookie), "")
    }

    fn timed(path: &str, ask: impl FnOnce() -> Fallible<String>) -> Fallible<f64> {
        let stopwatch = Stopwatch::start();
        let page = ask()?;
        let millis = stopwatch.elapsed().as_secs_f64() * 1e3;
        match page.starts_with("HTTP/1.1 200") {
            true => Ok(millis),
            false => Err(format!("{path}: {}", page.lines().next().unwrap_or_default()).into()),
        }
    }

    /// The path of the explanation of a decision.
    fn decision(&self) -> Fallible<String> {
        let bodies = fs::read_to_string(&self.checks)?;
        let check = bodies.lines().next().ok_or("there are no checks")?;
        let json = "Content-Type: application/json";
        let answer = exchange(self.server.address, "POST", CHECK_PATH, json, check)?;
        let id =
            answer.split_once("\"decision_id\":\"").and_then(|(_, rest)| rest.split('"').next());
        Ok(format!("/ui/decisions/{}", id.ok_or("a check has no decision_id")?))
    }

    /// The token that forms of the session carry.
    fn csrf(&self) -> Fallible<String> {
        let page = self.get("/ui/rules/r1")?;
        let token = page.split_once("name=\"csrf\" value=\"");
        let token = token.and_then(|(_, rest)| rest.split('"').next());
        Ok(token.ok_or("a page has no form")?.to_owned())
    }

    /// So many open pages, until this is dropped. Each has been accepted and has got figures.
    fn open(&self, pages: &[&str]) -> Fallible<Running> {
        let mut curl = pinned(CLIENT_CORE, "curl");
        curl.args(["--silent", "--no-buffer", "--include", "--parallel", "--parallel-immediate"]);
        curl.args(["--parallel-max", &pages.len().to_string(), "--cookie", &self.cookie]);
        let mut outputs = Vec::new();
        for (number, page) in pages.iter().enumerate() {
            let output = self.stage.directory.path().join(format!("stream-{number}"));
            // What an earlier one got.
            fs::write(&output, "")?;
            let page = page.replace('/', "%2F");
            curl.arg("--output").arg(&output);
            curl.arg(format!("http://{}/ui/events?page={page}", self.server.address));
            outputs.push(output);
        }
        curl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running::start(&mut curl)?;
        await_events(outputs)?;
        Ok(running)
    }
}

/// Waits until all streams have an event. One that is refused is an error.
fn await_events(mut waiting: Vec<PathBuf>) -> Fallible<()> {
    let stopwatch = Stopwatch::start();
    while !waiting.is_empty() {
        if stopwatch.elapsed() > FIRST_EVENTS_TIMEOUT {
            return Err(format!("{} open pages got no figures", waiting.len()).into());
        }
        thread::sleep(POLL_INTERVAL);
        let mut still = Vec::new();
        for output in waiting {
            let got = fs::read_to_string(&output)?;
            let status = got.split_once("\r\n").map(|(status, _)| status);
            if status.is_some_and(|status| !status.starts_with("HTTP/1.1 200")) {
                return Err(format!("an open page was refused: {got}").into());
            }
            // An event that is whole.
            let has_event = got.split_once("event: ").is_some_and(|(_, it)| it.contains("\n\n"));
            if !has_event {
                still.push(output);
            }
        }
        waiting = still;
    }
    Ok(())
}

/// So many of the pages that are opened.
fn opened(count: u64) -> Vec<&'static str> {
    OPENED.into_iter().cycle().zip(0..count).map(|(page, _)| page).collect()
}

/// The form with an access log that a browser sends.
fn upload(csrf: &str) -> String {
    let fields = [("csrf", csrf), ("format", "auto"), ("policy", "in_force")];
    let mut body = String::new();
    for (name, value) in fields {
        body += &format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
    }
    body += &format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"log\"; filename=\"access.log\"\r\n\r\n"
    );
    for line in 0..LOG_LINES {
        let (client, second, path) = (line % 200, line / 20 % 60, line % 9);
        body += &format!(
            "192.0.2.{client} - - [15/Nov/2026:10:00:{second:02} +0000] \"GET /service-{path}/x HTTP/1.1\" 200 5 \"-\" \"agent/1\"\n"
        );
    }
    body + &format!("\r\n--{BOUNDARY}--\r\n")
}

/// One request and its response, on a connection of its own.
fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    fields: &str,
    body: &str,
) -> Fallible<String> {
    let mut connection = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        connection,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{fields}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )?;
    let mut response = Vec::new();
    connection.read_to_end(&mut response)?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

/// How long each page takes once every key is active and figures of some seconds are there. Nothing else is asked for
/// meanwhile: beside a load, a page would be timed with what the load leaves of the processor.
pub(crate) fn pages(scale: &Scale) -> Fallible<Vec<Row>> {
    let dashboard = Dashboard::new(scale)?;
    let Dashboard { stage, server, checks, .. } = &dashboard;
    stage.wrk.drive(server, CHECK_PATH, checks, 0)?;
    let csrf = dashboard.csrf()?;
    let decision = dashboard.decision()?;
    let preview = format!(
        "csrf={csrf}&do=preview&mode=yaml&yaml=rule_id%3A+r1%0Alimit%3A+1%0Awindow%3A+1m%0Aidentifier_type%3A+user_id%0A"
    );
    let upload = upload(&csrf);
    let multipart = format!("Content-Type: multipart/form-data; boundary={BOUNDARY}");
    let mut rows = Vec::new();
    let mut measure = |name: &str, show: &dyn Fn() -> Fallible<f64>| -> Fallible<()> {
        let millis = (0..stage.rounds).map(|_| show()).collect::<Fallible<Vec<_>>>()?;
        let row =
            Row::figure(format!("dashboard/page/{name}"), median_of(&millis, |it| *it), " ms");
        let row = Row { spread: spread(millis.iter().copied()), ..row };
        rows.push(row.held_to(Bar::Below(200.0)));
        Ok(())
    };
    for (name, path) in PAGES {
        measure(name, &|| dashboard.show(path))?;
    }
    measure("decision", &|| dashboard.show(&decision))?;
    measure("preview", &|| dashboard.submit("/ui/rules/r1", FORM, &preview))?;
    measure("replayed_log", &|| dashboard.submit("/ui/simulate", &multipart, &upload))?;
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
    let mut rows = Vec::new();
    for (name, page) in [("dashboard/open_page", "/"), ("dashboard/open_live_page", "/ui/live")] {
        let _page = dashboard.open(&[page])?;
        let row = Row::figure(name, share()? - idle, " %").with("idle_percent", idle);
        rows.push(row.held_to(Bar::Below(2.0)));
    }
    let drive = || stage.wrk.drive(server, CHECK_PATH, checks, count);
    // A trial opens a few.
    let pages = opened(scale.of(2_000).min(OPEN_PAGES));
    let [with_pages, without] = in_turns(
        stage.rounds,
        [
            &|| {
                let _pages = dashboard.open(&pages)?;
                drive()
            },
            &drive,
        ],
    )?;
    let hundred = times_the_cost("dashboard/100_open_pages", &with_pages, &without);
    rows.push(hundred.held_to(Bar::AtMost(1.03)));
    Ok(rows)
}
