//! The demo of envoyproxy/ratelimit: its limits as they are, and its Envoy in front, in which only addresses are changed.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tollgate::{Clock as _, SystemClock};
use tollgate_e2e::client::Answer;
use tollgate_e2e::envoy::Envoy;
use tollgate_e2e::program::root;
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;

/// The most time that a scenario takes. Limits are per minute, so it must not cross the end of one.
const LONGEST: Duration = Duration::from_secs(25);

fn file(name: &str) -> PathBuf {
    root().join("crates/e2e/tests/service/rls/demo").join(name)
}

fn read(name: &str, changes: &[(&str, &str, &str)]) -> String {
    let mut text = fs::read_to_string(file(name)).expect("a file of the demo");
    for (host, port, address) in changes {
        let lines = text.lines().collect::<Vec<_>>();
        let (written_host, written_port) =
            (format!("address: {host}"), format!("port_value: {port}"));
        let (real_host, real_port) = address.split_once(':').expect("an address");
        let mut changed = Vec::new();
        let mut count = 0;
        let mut before = "";
        for line in lines {
            if before.trim() == written_host && line.trim() == written_port {
                count += 1;
                let last: &mut String = changed.last_mut().expect("the line of the host");
                *last = last.replace(host, real_host);
                changed.push(line.replace(port, real_port));
            } else {
                changed.push(line.to_owned());
            }
            before = line;
        }
        assert!(count > 0, "no {host}:{port} in {name}");
        text = changed.join("\n") + "\n";
    }
    text
}

struct Demo {
    server: Server,
    proxy: Envoy,
    _services: Envoy,
}

impl Demo {
    fn start() -> Self {
        let any = "127.0.0.1:0";
        let services =
            read("envoy/mock.yaml", &[("0.0.0.0", "9999", any), ("0.0.0.0", "10001", any)]);
        let services = Envoy::start_configured(&services, &[]);
        let config = file("config");
        let config = config.to_str().expect("a readable path");
        let server =
            Server::start(&Setup { arguments: &["--envoy-config", config], ..Setup::default() });
        let service = |name: &str| {
            let mut listeners = services.listeners.iter();
            let found = listeners.find(|at| {
                tollgate_e2e::program::curl(&[&format!("http://{at}/")]).ends_with(name)
            });
            found.unwrap_or_else(|| panic!("no service {name}")).to_string()
        };
        let proxy = read(
            "envoy/proxy.yaml",
            &[
                ("0.0.0.0", "8888", any),
                ("ratelimit", "8081", &server.grpc_address.to_string()),
                ("envoy-mock", "9999", &service("1")),
                ("envoy-mock", "10001", &service("2")),
            ],
        );
        // As in the demo; and Envoy's default of 20 ms is too short on a busy machine.
        let proxy = proxy.replace(
            "failure_mode_deny: false",
            "failure_mode_deny: true\n                      timeout: 10s",
        );
        let proxy = Envoy::start_configured(
            &proxy,
            &["--service-cluster", "proxy", "--service-node", "proxy"],
        );
        Self { server, proxy, _services: services }
    }

    fn get(&self, path: &str, headers: &[&str]) -> Answer {
        let headers: Vec<&str> = headers.iter().flat_map(|header| ["--header", *header]).collect();
        self.proxy.ask("127.0.0.1", path, &headers)
    }

    fn statuses(&self, path: &str, headers: &[&str], count: usize) -> Vec<u16> {
        (0..count).map(|_| self.get(path, headers).status).collect()
    }

    /// How many calls of Envoy were answered.
    fn calls(&self) -> u64 {
        self.server.figure("tollgate_grpc_responses_total{code=\"OK\"}") as u64
    }

    /// The body of a response, after the charge that follows it.
    fn get_and_charge(&self, path: &str) -> (u16, String) {
        let before = self.calls();
        let answer = self.get(path, &[]);
        if answer.status == 200 {
            until("the charge", || (self.calls() >= before + 2).then_some(()));
        }
        (answer.status, answer.text())
    }
}

/// Waits for a minute that is long enough, and starts the demo.
fn in_one_minute(scenario: impl Fn(&Demo)) {
    let demo = Demo::start();
    until("a minute that is long enough", || {
        let now = Duration::from_micros(SystemClock.now().as_micros());
        (now.as_secs() % 60 + LONGEST.as_secs() < 60).then_some(())
    });
    scenario(&demo);
}

#[test]
fn limits_by_cluster_and_header_are_those_of_the_demo() {
    in_one_minute(|demo| {
        assert_eq!(demo.statuses("/test", &[], 3), [200, 429, 429]);
        assert_eq!(demo.statuses("/header", &["foo: foo"], 3), [200, 200, 429]);
        assert_eq!(demo.statuses("/twoheader", &["foo: a", "bar: bar"], 4), [200, 200, 200, 429]);
        assert_eq!(demo.statuses("/twoheader", &["foo: a", "bar: banned"], 1), [429]);
        let shady = ["foo: a", "baz: shady"];
        assert_eq!(demo.statuses("/twoheader", &shady, 5), [200; 5], "in shadow mode");
        let not_so_shady = ["foo: a", "baz: not-so-shady"];
        assert_eq!(demo.statuses("/twoheader", &not_so_shady, 4), [200, 200, 200, 429]);
        assert_eq!(demo.statuses("/unspec", &["unspec: x"], 3), [200, 200, 429]);
        // Envoy writes its fields, and none comes twice.
        let answer = demo.get("/header", &["foo: other"]);
        for (name, value) in [("x-ratelimit-limit", "2, 2;w=60"), ("x-ratelimit-remaining", "1")] {
            assert_eq!(answer.header_values(name), [value], "{answer:?}");
        }
    });
}

#[test]
fn limits_that_replace_others_are_those_of_the_demo() {
    in_one_minute(|demo| {
        let banned = ["foo: f", "bar: banned"];
        let to = |cluster: &'static str| {
            let mut headers = banned.to_vec();
            headers.extend(["source_cluster: proxy", cluster]);
            headers
        };
        assert_eq!(demo.statuses("/twoheader", &banned, 1), [429]);
        assert_eq!(demo.statuses("/fourheader", &to("destination_cluster: mock"), 1), [429]);
        let replaced = to("destination_cluster: override");
        assert_eq!(demo.statuses("/fourheader", &replaced, 3), [200, 200, 429]);
    });
}

#[test]
fn a_request_passes_until_all_quotas_are_used_up() {
    in_one_minute(|demo| {
        assert_eq!(demo.statuses("/quota", &[], 4), [200, 200, 429, 429]);
    });
}

#[test]
fn quotas_that_are_charged_afterwards_are_those_of_the_demo() {
    in_one_minute(|demo| {
        let statuses: Vec<u16> = (0..5).map(|_| demo.get_and_charge("/tokenquota").0).collect();
        assert_eq!(statuses, [200, 200, 200, 429, 429], "2 in a minute, and the one in progress");
    });
}

#[test]
fn metadata_leads_requests_to_the_service_that_has_some_left() {
    in_one_minute(|demo| {
        for service in [1, 1, 2, 2, 2] {
            let (status, body) = demo.get_and_charge("/multiservice-tokenquota");
            assert_eq!((status, body), (200, format!("Hello World from Service {service}")));
        }
        assert_eq!(demo.get_and_charge("/multiservice-tokenquota").0, 429);
    });
}
