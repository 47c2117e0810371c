//! Three instances of the example service count in one Redis, as `examples/fleet/policy.yaml` says.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Barrier;
use std::{env, thread};

use tollgate_testbed::Redis;

use tollgate_e2e::client::{Answer, Connection, request};
use tollgate_e2e::process::Process;
use tollgate_e2e::program::root;
use tollgate_e2e::until;

const INSTANCES: usize = 3;
/// What the policy allows a client in a minute.
const LIMIT: usize = 30;

/// An instance of the example, on a port that it chose itself.
struct Instance {
    address: SocketAddr,
    _process: Process,
}

impl Instance {
    fn start(redis: &Redis) -> Self {
        // Tests are built into a folder beside that of the examples.
        let test = env::current_exe().expect("this program");
        let built = test.parent().and_then(|folder| folder.parent()).expect("where cargo builds");
        let program = built.join("examples/fleet");
        assert!(
            program.exists(),
            "{} is missing: cargo build --workspace --all-features --examples --profile test",
            program.display()
        );
        let mut process = Process::start(
            Command::new(program)
                .arg(root().join("examples/fleet/policy.yaml"))
                .arg("127.0.0.1:0")
                .env("REDIS_URL", redis.url()),
        );
        let address = process.until("the address of an instance", |process| {
            let said = process.output();
            said.strip_prefix("curl -i http://")?.strip_suffix("/\n")?.parse().ok()
        });
        Self { address, _process: process }
    }

    /// Sends so many requests, as the load balancer would for a client.
    fn ask(&self, client: &str, times: usize) -> Vec<Answer> {
        let mut connection = Connection::open(self.address);
        let request = request("GET", "/", &[("X-Forwarded-For", client)], b"");
        (0..times).map(|_| connection.ask(&request)).collect()
    }
}

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

/// Sends requests to all instances at once, to each as many as the limit.
fn ask_all(instances: &[Instance], client: &str) -> Vec<Answer> {
    let start = Barrier::new(instances.len());
    thread::scope(|scope| {
        let asked: Vec<_> = instances
            .iter()
            .map(|instance| {
                scope.spawn(|| {
                    start.wait();
                    instance.ask(client, LIMIT)
                })
            })
            .collect();
        asked.into_iter().flat_map(|asked| asked.join().expect("answers")).collect()
    })
}

#[test]
fn three_instances_together_admit_exactly_the_limit() {
    let redis = Redis::start();
    let instances: Vec<Instance> = (0..INSTANCES).map(|_| Instance::start(&redis)).collect();
    let mut clients = (1..=254).map(|number| format!("203.0.113.{number}"));
    // On a busy machine Redis may miss its deadline. Whether a 503 was charged is unknown, so another
    // client tries again.
    let (client, answers) = until("a client that Redis always answered for", || {
        let client = clients.next().expect("enough clients");
        let answers = ask_all(&instances, &client);
        assert!(count(&answers, 200) <= LIMIT, "too many passed: {answers:?}");
        (count(&answers, 503) == 0).then_some((client, answers))
    });
    let passed = (count(&answers, 200), count(&answers, 429));
    assert_eq!(passed, (LIMIT, (INSTANCES - 1) * LIMIT), "{client}: {answers:?}");
}
