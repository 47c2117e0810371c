//! Envoy with its rate limit filter, set up as in `examples/envoy-ratelimit.yaml`, with the limits in
//! `examples/ratelimit`.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tollgate_e2e::client::{Answer, Connection, request};
use tollgate_e2e::envoy::Envoy;
use tollgate_e2e::program::root;
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::upstream::Upstream;
use tollgate_e2e::{beside, until};

/// The requests per day of an address, by the example.
const PER_ADDRESS: usize = 40;
/// The id of the limit of logins: characters that ids do not have are hyphens, and digits follow.
const LOGIN: &str = "shop.path_-login-.remote_address-b60c42e9637f1b03";

/// Where every request counts, Envoy waits even if the machine is busy with other tests.
const PATIENT: &[(&str, &str)] = &[("timeout: 0.25s", "timeout: 10s")];

fn start(arguments: &[&str]) -> Server {
    let limits = root().join("examples/ratelimit");
    let limits = limits.to_str().expect("a readable path");
    let arguments = [&["--envoy-config", limits], arguments].concat();
    let settings = "envoy: {headers: [x-ratelimit, draft-11], refusal_body: true}";
    Server::start(&Setup { arguments: &arguments, settings, ..Setup::default() })
}

fn start_envoy(server: &Server, upstream: &Upstream, changes: &[(&str, &str)]) -> Envoy {
    let ports =
        [("8000", 0), ("8081", server.grpc_address.port()), ("3000", upstream.address.port())];
    Envoy::start_with("envoy-ratelimit.yaml", &ports, changes)
}

/// A free address outside the ephemeral ports, so that it is still free after a restart.
fn lasting_address() -> String {
    let start = u16::try_from(std::process::id() % 10_000).unwrap_or(0) + 20_000;
    let mut addresses = (start..32_000).map(|port| format!("127.0.0.1:{port}"));
    addresses.find(|address| TcpListener::bind(address).is_ok()).expect("a free port")
}

fn assert_passed(answer: &Answer) {
    assert_eq!((answer.status, answer.text().as_str()), (200, "upstream"), "{answer:?}");
}

fn assert_refused(answer: &Answer, limit: &str) {
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(answer.header("x-envoy-ratelimited"), Some("true"), "{answer:?}");
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let wait = answer.header("retry-after").and_then(|wait| wait.parse().ok());
    assert!(wait.is_some_and(|wait: u64| (1..=86_400).contains(&wait)), "{answer:?}");
    let body = answer.json();
    assert_eq!(body["error"]["code"], "RATE_LIMIT_EXCEEDED");
    assert_eq!((&body["error"]["rule_id"], &body["status"]), (&limit.into(), &429.into()));
}

#[test]
fn requests_pass_until_they_are_refused_with_429() {
    let server = start(&[]);
    let upstream = Upstream::start();
    let envoy = start_envoy(&server, &upstream, PATIENT);

    // By a header of the request.
    let trial = ["--header", "X-Tenant: trial"];
    for left in ["2", "1", "0"] {
        let answer = envoy.ask("127.0.0.2", "/orders", &trial);
        assert_passed(&answer);
        assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left));
        let fields = answer.header("ratelimit").expect("what is left");
        assert!(fields.contains("\"shop.tenant_trial\";r="), "{fields}");
        assert!(fields.contains("\"shop.remote_address\";r="), "{fields}");
    }
    assert_refused(&envoy.ask("127.0.0.2", "/orders", &trial), "shop.tenant_trial");
    let acme = envoy.ask("127.0.0.2", "/orders", &["--header", "X-Tenant: acme"]);
    assert_passed(&acme);

    // By the path, together with the address.
    let login = ["--request", "POST"];
    for _ in 0..5 {
        assert_passed(&envoy.ask("127.0.0.3", "/login", &login));
    }
    assert_refused(&envoy.ask("127.0.0.3", "/login", &login), LOGIN);
    assert_passed(&envoy.ask("127.0.0.4", "/login", &login));

    // By the address alone. The refusals above did not charge it.
    for left in (0..PER_ADDRESS - 5).rev() {
        let answer = envoy.ask("127.0.0.3", "/", &[]);
        assert_passed(&answer);
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left.to_string().as_str()));
    }
    assert_refused(&envoy.ask("127.0.0.3", "/", &[]), "shop.remote_address");
    let asked = upstream.asked().len();
    assert_eq!(asked, 3 + 1 + 5 + 1 + PER_ADDRESS - 5, "refused requests do not reach the service");
}

/// Envoy lets requests pass whose check failed, so a client that makes its own check fail has no limits.
#[test]
fn a_client_cannot_switch_limits_off_by_what_it_sends() {
    const TIMES: usize = 50;
    let server = start(&[]);
    let upstream = Upstream::start();
    let envoy = start_envoy(&server, &upstream, PATIENT);
    let mut connection = Connection::open(envoy.address);
    for _ in 0..PER_ADDRESS {
        assert_passed(&connection.ask(&request("GET", "/", &[], b"")));
    }
    let asked = upstream.asked().len();
    let mut check = |what: &str, bytes: &[u8]| {
        let statuses = (0..TIMES).map(|_| connection.ask(bytes).status);
        let refused = statuses.filter(|status| *status == 429).count();
        assert_eq!(refused, TIMES, "{what}: requests that were refused");
    };
    check("nothing special", &request("GET", "/", &[], b""));
    let long_path = format!("/login?{}", "x".repeat(5_000));
    check("a long path", &request("POST", &long_path, &[], b""));
    // Envoy takes 60 KiB of header fields in all.
    let long = "x".repeat(58_000);
    check("a long header", &request("GET", "/", &[("X-Tenant", &long)], b""));
    let longest_path = format!("/login?{long}");
    check("the longest path", &request("POST", &longest_path, &[], b""));
    let with_byte = |byte: u8| {
        let mut bytes = request("GET", "/", &[("X-Tenant", "a?b")], b"");
        let place = bytes.iter().rposition(|byte| *byte == b'?').expect("the place");
        bytes[place] = byte;
        bytes
    };
    check("a byte that is not UTF-8", &with_byte(0xff));
    check("half a character", &with_byte(0xc3));
    assert_eq!(upstream.asked().len(), asked, "refused requests do not reach the service");
}

#[test]
fn a_query_does_not_reset_the_limit_of_logins() {
    let server = start(&[]);
    let upstream = Upstream::start();
    let envoy = start_envoy(&server, &upstream, PATIENT);
    let login = |path: &str| envoy.ask("127.0.0.5", path, &["--request", "POST"]);
    let statuses: Vec<u16> = (0..6).map(|_| login("/login").status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
    for number in 0..20 {
        assert_refused(&login(&format!("/login?{number}")), LOGIN);
    }
}

/// Envoy's own fields and ours used to contradict each other.
#[test]
fn limits_are_in_header_fields_once_if_envoy_writes_them() {
    let limits = root().join("examples/ratelimit");
    let limits = limits.to_str().expect("a readable path");
    let server =
        Server::start(&Setup { arguments: &["--envoy-config", limits], ..Setup::default() });
    let upstream = Upstream::start();
    let own_fields = "failure_mode_deny: false\n                      \
                      enable_x_ratelimit_headers: DRAFT_VERSION_03";
    let changes = [PATIENT, &[("failure_mode_deny: false", own_fields)]].concat();
    let envoy = start_envoy(&server, &upstream, &changes);
    let check = |status: u16, left: &str| {
        let answer = envoy.ask("127.0.0.2", "/orders", &["--header", "X-Tenant: trial"]);
        assert_eq!(answer.status, status, "{answer:?}");
        for name in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
            assert_eq!(answer.header_values(name).len(), 1, "{name}: {answer:?}");
        }
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left));
        let limit = answer.header("x-ratelimit-limit").expect("the limit");
        assert!(limit.starts_with("3, ") && !limit.contains("name"), "{limit}");
        assert_eq!(answer.header_values("ratelimit").len(), 0, "{answer:?}");
        assert_eq!(
            answer.header_values("retry-after").len(),
            usize::from(status == 429),
            "{answer:?}"
        );
        if status == 429 {
            assert_eq!((answer.text().as_str(), answer.header("content-type")), ("", None));
        }
    };
    for left in ["2", "1", "0"] {
        check(200, left);
    }
    check(429, "0");
}

#[test]
fn the_access_log_of_envoy_names_the_rule_that_refused() {
    let server = start(&[]);
    let upstream = Upstream::start();
    let mut envoy = start_envoy(&server, &upstream, PATIENT);
    for _ in 0..4 {
        envoy.ask("127.0.0.2", "/orders", &["--header", "X-Tenant: trial"]);
    }
    let log = envoy.process.until("four lines of the access log", |process| {
        let lines: Vec<String> = process
            .output()
            .lines()
            .filter(|line| line.contains("/orders"))
            .map(str::to_owned)
            .collect();
        (lines.len() == 4).then_some(lines)
    });
    for (line, left) in log.iter().zip(["2", "1", "0"]) {
        assert!(line.contains(&format!(" 200 shop.tenant_trial {left}/3 d")), "{line}");
    }
    assert!(log[3].contains(" 429 shop.tenant_trial 0/3 d"), "{}", log[3]);
    let id = log[3].rsplit(' ').next().expect("the decision");
    assert_eq!(server.get_as_admin(&format!("/api/v1/decisions/{id}")).status, 200, "{id}");
}

#[test]
fn without_tollgate_requests_pass() {
    let server = start(&[]);
    let upstream = Upstream::start();
    let envoy = start_envoy(&server, &upstream, &[]);
    let trial = ["--header", "X-Tenant: trial"];
    // On a busy machine a response may be late, and then a request passes.
    let until_refused = || {
        until("a refusal", || (envoy.ask("127.0.0.2", "/", &trial).status == 429).then_some(()));
    };
    until_refused();

    // The server hangs.
    server.process.freeze();
    for _ in 0..2 {
        let answer = envoy.ask("127.0.0.2", "/", &trial);
        assert_passed(&answer);
        assert_eq!(answer.header("x-ratelimit-limit"), None, "no check was made");
    }
    server.process.signal("CONT");
    until_refused();

    drop(server);
    for _ in 0..5 {
        assert_passed(&envoy.ask("127.0.0.2", "/", &trial));
    }
}

#[test]
fn a_restart_under_load_is_not_noticed() {
    let address = lasting_address();
    let mut server = start(&["--grpc", &address]);
    let upstream = Upstream::start();
    let envoy = start_envoy(&server, &upstream, &[]);
    let answers = AtomicUsize::new(0);
    let load = |is_over: &AtomicBool| {
        let mut connection = Connection::open(envoy.address);
        let load = request("GET", "/", &[], b"");
        while !is_over.load(Ordering::Relaxed) {
            let answer = connection.ask(&load);
            assert!([200, 429].contains(&answer.status), "{answer:?}");
            answers.fetch_add(1, Ordering::Relaxed);
        }
    };
    let exhaust = |client: &str| {
        let trial = ["--header", "X-Tenant: trial"];
        until("a refusal", || (envoy.ask(client, "/", &trial).status == 429).then_some(()));
    };
    beside(4, load, || {
        exhaust("127.0.0.2");
        server.process.signal("TERM");
        assert_eq!(server.process.end().code(), Some(0), "{}", server.process.errors());
        let before = answers.load(Ordering::Relaxed);
        until("answers meanwhile", || {
            (answers.load(Ordering::Relaxed) > before + 100).then_some(())
        });
        assert_passed(&envoy.ask("127.0.0.2", "/", &["--header", "X-Tenant: trial"]));
        let again = start(&["--grpc", &address]);
        // Its counters are new, but its limits are the same.
        exhaust("127.0.0.2");
        drop(again);
    });
}
