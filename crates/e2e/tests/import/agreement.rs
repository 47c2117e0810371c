//! A real nginx and the policy imported from its configuration decide the same requests.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use tollgate_e2e::nginx::{Nginx, command, free_address};
use tollgate_testbed::WAIT_TIMEOUT;

use crate::support::{tollgate, write};

/// One request in a minute: what the counters drain while the test runs is negligible.
const LIMITS: &str = "
limit_req_zone $binary_remote_addr zone=server:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=other:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=strict:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=burst:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=held:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=later:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=shared:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=wide:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=narrow:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=exact:1m rate=1r/m;
limit_req_zone $http_x_api_key zone=key:1m rate=1r/m;
limit_req_zone $binary_remote_addr$uri zone=path:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=first:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=second:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=watched:1m rate=1r/m;

server {
    listen ADDRESS;
    server_name shop.example;
    limit_req zone=server burst=2 nodelay;

    location / { empty_gif; }
    location /strict/ { limit_req zone=strict; empty_gif; }
    location /burst/ { limit_req zone=burst burst=4 nodelay; empty_gif; }
    location /held/ { limit_req zone=held burst=3; empty_gif; }
    location /later/ { limit_req zone=later burst=4 delay=2; empty_gif; }
    location /shared/a/ { limit_req zone=shared burst=3 nodelay; empty_gif; }
    location /shared/b/ { limit_req zone=shared burst=3 nodelay; empty_gif; }
    location /wide/ {
        limit_req zone=wide burst=1 nodelay;
        empty_gif;
        location /wide/narrow/ { limit_req zone=narrow burst=2 nodelay; empty_gif; }
        location = /wide/exact { limit_req zone=exact; empty_gif; }
        location /wide/same/ { empty_gif; }
    }
    location /key/ { limit_req zone=key burst=1 nodelay; empty_gif; }
    location /path/ { limit_req zone=path burst=1 nodelay; empty_gif; }
    location /both/ {
        limit_req zone=first burst=1 nodelay;
        limit_req zone=second burst=3 nodelay;
        empty_gif;
    }
    location = /second { limit_req zone=second burst=3 nodelay; empty_gif; }
    location /watched/ { limit_req zone=watched; limit_req_dry_run on; empty_gif; }
    location = /free { return 204; }
}

server {
    listen ADDRESS;
    server_name other.example;
    location / { limit_req zone=other burst=1 nodelay; empty_gif; }
    location /open/ { empty_gif; }
}
";

/// Host, path, API key, and how often.
const REQUESTS: [(&str, &str, &str, usize); 27] = [
    ("shop.example", "/strict/x", "", 3),
    ("shop.example", "/burst/x", "", 8),
    ("shop.example", "/held/x", "", 7),
    ("shop.example", "/later/x", "", 8),
    // One zone, one counter.
    ("shop.example", "/shared/a/x", "", 2),
    ("shop.example", "/shared/b/x", "", 4),
    ("shop.example", "/shared/a/x", "", 1),
    // The narrowest location.
    ("shop.example", "/wide/x", "", 1),
    ("shop.example", "/wide/narrow/x", "", 5),
    ("shop.example", "/wide/exact", "", 2),
    ("shop.example", "/wide/exact/not", "", 1),
    ("shop.example", "/wide/same/x", "", 2),
    // An empty key is not counted.
    ("shop.example", "/key/x", "", 4),
    ("shop.example", "/key/x", "one", 3),
    ("shop.example", "/key/x", "two", 3),
    ("shop.example", "/path/x", "", 3),
    ("shop.example", "/path/y", "", 3),
    // A request that the first limit refuses is not charged to the second.
    ("shop.example", "/both/x", "", 5),
    ("shop.example", "/second", "", 4),
    ("shop.example", "/watched/x", "", 4),
    // Inherited limits.
    ("shop.example", "/free", "", 5),
    ("shop.example", "/", "", 2),
    ("shop.example", "/anything/else", "", 3),
    ("other.example", "/", "", 1),
    ("other.example", "/open/x", "", 5),
    ("other.example", "/strict/x", "", 2),
    ("other.example", "/free", "", 1),
];

/// Sends a request, and does not wait.
fn send(nginx: &Nginx, host: &str, path: &str, api_key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(nginx.address).expect("a connection");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {api_key}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Admitted,
    Held,
    Refused,
}

/// The outcomes of all requests under the imported policy, if they come at the same time.
fn fates(folder: &Path, requests: &[(&str, &str, &str)]) -> Vec<Fate> {
    let top = folder.join("nginx.conf");
    let top = top.to_str().expect("a path");
    let imported = tollgate(&["rules", "import", "--from", "nginx", top], "");
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    for line in imported.stderr.lines().filter(|line| line.starts_with("note: ")) {
        let known =
            ["IPv6", "429", "holds early", "no server names", "if the settings of Tollgate"];
        assert!(known.iter().any(|part| line.contains(part)), "something is lost: {line}");
    }
    let policy = write(folder, "policy.yaml", imported.stdout);
    let trace = requests.iter().map(|(host, path, api_key)| {
        let step = json!({
            "t_ms": 0, "ip": "127.0.0.1", "host": host, "endpoint": path, "api_key": api_key,
        });
        format!("{step}\n")
    });
    let trace = trace.collect::<String>();
    let ran = tollgate(&["simulate", "--json", "--rules", &policy, "-"], &trace);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let fate = |line: &str| {
        let answer: Value = serde_json::from_str(line).expect("JSON");
        match (&answer["allowed"], answer["delay_ms"].as_u64()) {
            (Value::Bool(true), None | Some(0)) => Fate::Admitted,
            (Value::Bool(true), Some(_)) => Fate::Held,
            _ => Fate::Refused,
        }
    };
    ran.stdout.lines().map(fate).collect()
}

#[test]
fn an_imported_policy_admits_what_nginx_admits() {
    let address = free_address("127.0.0.42");
    let nginx = Nginx::start(address, &LIMITS.replace("ADDRESS", &address.to_string()));
    let requests = REQUESTS.iter().flat_map(|&(host, path, api_key, times)| {
        std::iter::repeat_n((host, path, api_key), times)
    });
    let requests = requests.collect::<Vec<_>>();
    let fates = fates(nginx.folder.path(), &requests);
    assert_eq!(fates.len(), requests.len());
    let mut held = Vec::new();
    for (number, ((host, path, api_key), expected)) in requests.iter().zip(&fates).enumerate() {
        let mut stream = send(&nginx, host, path, api_key);
        if *expected == Fate::Held {
            held.push((number, stream));
            continue;
        }
        stream.set_read_timeout(Some(WAIT_TIMEOUT)).expect("a timeout");
        let mut status = [0; 12];
        let read = stream.read_exact(&mut status);
        let status = String::from_utf8_lossy(&status).into_owned();
        let found = match (&read, &*status) {
            (Ok(()), "HTTP/1.1 200" | "HTTP/1.1 204") => Fate::Admitted,
            (Ok(()), "HTTP/1.1 503") => Fate::Refused,
            _ => panic!("{number} {host}{path}, expected {expected:?}: {read:?} {status}"),
        };
        assert_eq!(found, *expected, "{number} {host}{path} {api_key}\n{}", nginx.log());
    }
    // They would wait for a minute or more.
    for (number, stream) in held {
        stream.set_nonblocking(true).expect("a stream that does not wait");
        let answer = (&stream).read(&mut [0; 64]).map_err(|error| error.kind());
        assert_eq!(answer, Err(io::ErrorKind::WouldBlock), "{number} {:?}", requests[number]);
    }
    let count = |fate| fates.iter().filter(|it| **it == fate).count();
    let counts = [Fate::Admitted, Fate::Held, Fate::Refused].map(count);
    assert!(counts.iter().all(|count| *count > 3), "all of them are tried: {counts:?}");
}

/// Texts that nginx accepts, and others that it refuses. Directives that only nginx knows are not among
/// them.
const TEXTS: [&str; 44] = [
    "limit_req_zone $remote_addr zone=z:1m rate=1r/s;",
    "limit_req_zone $remote_addr rate=1r/s zone=z:1m;",
    "limit_req_zone $remote_addr zone=z:1m rate=5;",
    "limit_req_zone ${remote_addr}x zone=z:1m rate=1r/s;",
    "limit_req_zone \"\" zone=z:1m rate=1r/m;",
    "limit_req_zone $remote_addr zone=z:1m;",
    "limit_req_zone $remote_addr zone=z:1m rate=0r/s;",
    "limit_req_zone $remote_addr zone=z:1m rate=1r/h;",
    "limit_req_zone $remote_addr zone=z:1m rate=1.5r/s;",
    "limit_req_zone $remote_addr zone=z rate=1r/s;",
    "limit_req_zone $remote_addr zone=:1m rate=1r/s;",
    "limit_req_zone $remote_addr zone=z:1g rate=1r/s;",
    "limit_req_zone $ zone=z:1m rate=1r/s;",
    "limit_req_zone a$ zone=z:1m rate=1r/s;",
    "limit_req_zone ${remote_addr zone=z:1m rate=1r/s;",
    "limit_req_zone $uri zone=y:1m rate=1r/s; limit_req_zone $uri zone=y:1m rate=1r/s;",
    "Z limit_req zone=y burst=5 nodelay;",
    "Z limit_req zone=y burst=9223372036854775807;",
    "Z limit_req zone=y burst=99999999999999999999;",
    "Z limit_req zone=y burst=0;",
    "Z limit_req zone=y delay=0 burst=5;",
    "Z limit_req burst=5;",
    "Z limit_req;",
    "Z limit_req zone=y; limit_req zone=y burst=5;",
    "Z limit_req zone=y hurry;",
    "limit_req_status 200;",
    "limit_req_status 429; limit_req_dry_run on; limit_req_log_level warn;",
    "limit_req_status 429; limit_req_status 503;",
    "limit_req_dry_run maybe;",
    "Z server { if ($uri) { limit_req zone=y; } }",
    "Z server { location / { limit_except GET { limit_req zone=y; } } }",
    "server { location =/a {} location ^~/x {} location ~y {} location ~*z {} location @n {} }",
    "server { location /a { location /b {} } }",
    "server { location = /a { location /a/b {} } }",
    "server { location ! /a {} }",
    "server { location {} }",
    "server { return 200 \"a\"b; }",
    "server { return 200 \"a};",
    "server { return 200 a\"b}c; }",
    "server { set $x \"a\\\"b\"; if ($uri = \"b\") { return 200 '#;}'; } }",
    "server { } # } ; {\n",
    ";",
    "{}",
    "server { }}",
];

#[test]
fn nginx_refuses_what_cannot_be_imported() {
    let folder = tempfile::tempdir().expect("a folder");
    for text in TEXTS {
        let text = text.replace("Z ", "limit_req_zone $uri zone=y:1m rate=1r/s; ");
        let whole = format!("pid nginx.pid;\nevents {{}}\nhttp {{ {text} }}\n");
        let top = write(folder.path(), "nginx.conf", whole);
        let tested = command(folder.path()).arg("-t").output().expect("nginx runs");
        let imported = tollgate(&["rules", "import", "--from", "nginx", &top], "");
        let told = String::from_utf8_lossy(&tested.stderr);
        let code = if tested.status.success() { 0 } else { 2 };
        assert_eq!(imported.code, code, "{text}\n{told}\n{}", imported.stderr);
    }
}
