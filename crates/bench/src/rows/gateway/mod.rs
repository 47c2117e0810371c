//! A request through the gateway: what its rules add to the cost of forwarding, and what nginx takes for
//! the same. A bare proxy of the same HTTP library shows what is possible with it.
//!
//! The proxies have one processor in turns. The other is for wrk and for the upstream, an nginx that
//! answers with a few bytes.

pub(crate) mod bare;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;

use crate::Fallible;
use crate::peers::LIMIT;
use crate::row::{Bar, Row};
use crate::rows::load::{Load, in_turns, median_of, need, times_the_cost};
use crate::rows::server::{CLIENT_CORE, SERVER_CORE, Server, pinned};
use crate::scale::Scale;

/// How many connections are kept busy.
const CONNECTIONS: usize = 64;
/// How much of a processor the gateway may use if the client is to set the pace.
const UNHURRIED: f64 = 0.85;
/// What wrk counts to before each request when it is first slowed down: a few microseconds.
const FIRST_COUNT: u64 = 500;
const NGINX: &str = "/usr/sbin/nginx";

/// What a request costs the gateway, with a rule by address and without any.
pub(crate) fn forward(scale: &Scale) -> Fallible<Vec<Row>> {
    need("wrk", "wrk")?;
    need(NGINX, "nginx-light")?;
    let directory = tempfile::tempdir()?;
    let folder = |name: &str| -> Fallible<_> {
        let path = directory.path().join(name);
        fs::create_dir(&path)?;
        Ok(path)
    };
    let answer = "location / { return 200 hello; }";
    let upstream = nginx(&folder("upstream")?, CLIENT_CORE, "", answer)?;
    let rule = format!(
        "rules: [{{rule_id: per_address, identifier_type: ip, algorithm: gcra, limit: {LIMIT}, \
         window: 1s}}]"
    );
    let limited = Server::gateway(&folder("limited")?, &rule, upstream.address)?;
    let free = Server::gateway(&folder("free")?, "rules: []", upstream.address)?;
    let target = format!("upstream behind {{ server {}; keepalive 64; }}", upstream.address);
    let pass = "location / { proxy_pass http://behind; proxy_http_version 1.1; \
                proxy_set_header Connection \"\"; }";
    let proxy = nginx(&folder("proxy")?, SERVER_CORE, &target, pass)?;
    let bare = Server::bare_proxy(upstream.address)?;
    let script = directory.path().join("get.lua");
    fs::write(&script, include_str!("get.lua"))?;
    // wrk counts in whole seconds.
    let seconds = (scale.of(4_000) / 1_000).max(1);
    let count = unhurried(&limited, &script, seconds)?;
    let drive = |server| drive(server, &script, seconds, count);
    let [limited, free, proxy, bare] = in_turns(
        scale.rounds.min(5),
        [&|| drive(&limited), &|| drive(&free), &|| drive(&proxy), &|| drive(&bare)],
    )?;
    let rules = times_the_cost("gateway", &limited, &free).held_to(Bar::AtMost(1.15));
    let whole = times_the_cost("gateway/nginx", &limited, &proxy).held_to(Bar::AtMost(1.35));
    let bare_micros = median_of(&bare, |load| load.micros_per_request);
    Ok(vec![rules, whole.with("bare_hyper_us", bare_micros)])
}

/// An nginx of one process.
fn nginx(folder: &Path, core: &str, around: &str, location: &str) -> Fallible<Server> {
    // It cannot choose a port by itself.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let config = format!(
        "daemon off; master_process off; pid nginx.pid; error_log error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    {around}
    server {{ listen {address}; {location} }}
}}
"
    );
    fs::write(folder.join("nginx.conf"), config)?;
    let mut command = pinned(core, NGINX);
    command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "error.log"]);
    Server::listening(&mut command, address)
}

/// What wrk has to count to before each request so that the gateway is not busy all the time. Else wrk and the upstream
/// sleep while they wait, and whichever proxy is slower pays for waking them.
fn unhurried(server: &Server, script: &Path, seconds: u64) -> Fallible<u64> {
    let mut count = FIRST_COUNT;
    while drive(server, script, seconds, count)?.used() > UNHURRIED {
        count *= 2;
    }
    Ok(count)
}

/// Sends requests as responses arrive, and counts up to `count` before each.
fn drive(server: &Server, script: &Path, seconds: u64, count: u64) -> Fallible<Load> {
    let mut wrk = pinned(CLIENT_CORE, "wrk");
    wrk.args(["--threads", "1", "--connections", &CONNECTIONS.to_string()]);
    wrk.args(["--duration", &format!("{seconds}s")]).arg("--script").arg(script);
    wrk.arg(url(server.address)).arg("--").arg(count.to_string());
    let before = server.processor_seconds()?;
    let output = wrk.stderr(Stdio::inherit()).output()?;
    let used = server.processor_seconds()? - before;
    let said = String::from_utf8_lossy(&output.stdout);
    let (Some(requests), Some(requests_per_second)) = (requests(&said), rate(&said)) else {
        return Err(format!("the load failed: {said}").into());
    };
    Ok(Load { requests_per_second, micros_per_request: used / requests * 1e6 })
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/")
}

/// How many requests got a response; `None` if one of them failed.
fn requests(said: &str) -> Option<f64> {
    if said.contains("Non-2xx") || said.contains("Socket errors") {
        return None;
    }
    let line = said.lines().find(|line| line.contains(" requests in "))?;
    line.split_whitespace().next()?.parse().ok().filter(|requests| *requests > 0.0)
}

fn rate(said: &str) -> Option<f64> {
    said.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_good_answers_count() {
        let check =
            |said: &str, expected: Option<f64>| assert_eq!(requests(said), expected, "{said}");
        check("  12 requests in 1.00s, 3KB read\nRequests/sec:     11.90\n", Some(12.0));
        check("  12 requests in 1.00s, 3KB read\n  Non-2xx or 3xx responses: 1\n", None);
        check("  Socket errors: connect 0\n  12 requests in 1.00s, 3KB read\n", None);
        check("  0 requests in 1.00s, 0B read\n", None);
        check("unable to connect", None);
    }

    #[test]
    fn the_rate_is_printed() {
        assert_eq!(rate("x\nRequests/sec:     11.90\n"), Some(11.9));
        assert_eq!(rate("x"), None);
    }
}
