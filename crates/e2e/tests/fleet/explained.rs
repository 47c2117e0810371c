//! A decision is explained by every node of a fleet: the node that made it is asked, and when it is gone, the log.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{JSON, Server, Setup, bearer_admin};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis, RedisCluster};

use crate::nodes::cluster_url;

const ALICE: &str = r#"{"identifiers":{"user_id":"alice"}}"#;
const POLICY: &str = r#"{"rules": [
    {"rule_id": "r", "limit": 1, "window": "300d", "identifier_type": "user_id"}]}"#;
const SECRET: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef");
/// Every check is refused.
const RULES: &str = "rules: [{rule_id: r, limit: 0, window: 300d, identifier_type: user_id}]";

fn node(store: &str, settings: &str, secret: &[(&str, &str)]) -> Server {
    let arguments = ["--store", store];
    let (rules, arguments) = (Some(RULES), arguments.as_slice());
    Server::start(&Setup { rules, settings, arguments, environment: secret })
}

/// The path of the explanation of a refusal that a node makes.
fn refused(node: &Server) -> String {
    let refused = node.check(ALICE);
    assert_eq!(refused["allowed"], false, "{refused}");
    format!("/api/v1/decisions/{}", refused["decision_id"].as_str().expect("an id"))
}

/// The detail of a decision that is not known.
fn unknown(answer: &Answer) -> String {
    assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_decision"), "{answer:?}");
    answer.json()["detail"].to_string()
}

/// What a node says of a decision of another, as soon as both listen.
fn explained(node: &Server, path: &str) -> Value {
    until("an explanation", || {
        let answer = node.get_as_admin(path);
        (answer.status == 200).then(|| answer.json())
    })
}

/// It looked as if the other rules did not apply.
#[test]
fn a_refusal_from_the_deny_cache_says_that_other_rules_were_not_looked_at() {
    let redis = Redis::start();
    let url = redis.url();
    let rule = |id: &str, limit: u32| {
        format!("{{rule_id: {id}, limit: {limit}, window: 300d, identifier_type: user_id}}")
    };
    let rules = format!("rules: [{}, {}]", rule("small", 1), rule("large", 9));
    let (rules, arguments) = (Some(rules.as_str()), ["--store", url.as_str()]);
    let setup = Setup { rules, arguments: &arguments, environment: &[SECRET], ..Setup::default() };
    let node = Server::start(&setup);
    assert_eq!(node.check(ALICE)["allowed"], true);
    let first = node.get_as_admin(&refused(&node)).json();
    assert_eq!(first["because"], "rule small was exceeded and binds", "{first}");
    assert_eq!(first["rules"].as_array().map(Vec::len), Some(2), "{first}");
    let cached = until("a refusal from the deny cache", || {
        let told = node.get_as_admin(&refused(&node)).json();
        (told["rules"].as_array().map(Vec::len) == Some(1)).then_some(told)
    });
    let because = cached["because"].as_str().expect("a reason");
    assert!(because.contains("; another rule was not looked at, since this node"), "{because}");
}

#[test]
fn a_refusal_is_explained_by_other_nodes_from_the_log_when_its_node_is_gone() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let (catalog, url) = (postgres.url(), redis.url());
    let arguments = ["--store", url.as_str(), "--catalog", catalog.as_str()];
    let setup = Setup { arguments: &arguments, ..Setup::default() };
    let [a, b] = [(); 2].map(|()| Server::start(&setup));
    let put = a.ask("PUT", "/api/v1/policy", &[JSON, bearer_admin()], POLICY);
    assert_eq!(put.status, 200, "{put:?}");
    assert_eq!(a.check(ALICE)["allowed"], true);
    let path = refused(&a);
    let here = a.get_as_admin(&path).json();
    until("the same explanation", || (explained(&b, &path) == here).then_some(()));
    // The log is written in the background.
    until("a line of the log", || {
        let id = path.replace("/api/v1/decisions/", "");
        let lines = "SELECT count(*) FROM tollgate_decision_log WHERE decision_id =";
        (postgres.query(&format!("{lines} '{id}'")) == "1").then_some(())
    });
    a.process.signal("KILL");
    let there = until("the log", || {
        let there = b.get_as_admin(&path);
        (there.status == 200 && there.json()["revision"].is_null()).then(|| there.json())
    });
    for field in ["decision_id", "at", "because", "tier"] {
        assert_eq!(there[field], here[field], "{field}");
    }
    for field in ["allowed", "limit", "remaining", "rule_id", "reason", "decision_id"] {
        assert_eq!(there["answer"][field], here["answer"][field], "{field}");
    }
    assert!(there["answer"]["retry_after"].is_u64(), "{there}");
    unknown(&b.get_as_admin(&path.replace("-r", "-r9")));
}

/// The explanation by the node that decided, once it has recorded the request.
fn recorded(node: &Server, path: &str) -> Value {
    until("the identifiers of the request", || {
        let explained = node.get_as_admin(path).json();
        explained["identifiers"].is_object().then_some(explained)
    })
}

#[test]
fn a_refusal_is_explained_by_the_node_that_made_it_while_it_remembers() {
    let (redis, cluster, postgres) = (Redis::start(), RedisCluster::start(3, 0), Postgres::start());
    for store in [redis.url(), cluster_url(&cluster), postgres.url()] {
        let [a, b] = [(); 2].map(|()| node(&store, "{decisions_kept: 64}", &[SECRET]));
        let path = refused(&a);
        let here = recorded(&a, &path);
        assert_eq!(here["rules"].as_array().map(Vec::len), Some(1), "{here}");
        assert_eq!(explained(&b, &path), here, "{store}");
        let later = refused(&b);
        let there = recorded(&b, &later);
        assert_eq!(explained(&a, &later), there, "{store}");
        (0..64).for_each(|_| drop(refused(&a)));
        let detail = unknown(&b.get_as_admin(&path));
        assert!(detail.contains("does not know it any more"), "{store}: {detail}");
        let last = refused(&a);
        a.process.signal("KILL");
        until("its end", || {
            let detail = unknown(&b.get_as_admin(&last));
            detail.contains("does not respond").then_some(())
        });
    }
}

/// The explanation of a decision by many rules takes several messages.
#[test]
fn a_long_explanation_arrives_whole() {
    let rule = |number: usize| {
        format!(
            "- {{rule_id: r{number}, limit: 0, window: 1d, identifier_type: global, consistency: local}}\n"
        )
    };
    let rules = format!("rules:\n{}", (0..300).map(rule).collect::<String>());
    let (redis, postgres) = (Redis::start(), Postgres::start());
    for store in [redis.url(), postgres.url()] {
        let arguments = ["--store", store.as_str()];
        let settings = "{store_failure: {deadline: 5s}}";
        let (rules, arguments) = (Some(rules.as_str()), arguments.as_slice());
        let setup = Setup { rules, settings, arguments, environment: &[SECRET] };
        let [a, b] = [(); 2].map(|()| Server::start(&setup));
        let path = refused(&a);
        let here = recorded(&a, &path);
        let there = explained(&b, &path);
        assert!(there.to_string().len() > 20_000, "{}", there.to_string().len());
        assert_eq!(there, here);
    }
}

#[test]
fn without_a_secret_a_refusal_of_another_node_is_not_known() {
    let redis = Redis::start();
    let [a, b] = [(); 2].map(|()| node(&redis.url(), "", &[]));
    let path = refused(&a);
    assert_eq!(a.get_as_admin(&path).json()["answer"]["allowed"], json!(false));
    let detail = unknown(&b.get_as_admin(&path));
    assert!(detail.contains("another node made decision"), "{detail}");
}

/// Reads the messages between nodes, as a program could that has access to the store.
struct Spy(BufReader<TcpStream>);

impl Spy {
    fn new(redis: &Redis) -> Self {
        let mut stream = TcpStream::connect(redis.address()).expect("a connection");
        stream.write_all(b"PSUBSCRIBE tg:node:*\r\n").expect("a subscription");
        let mut spy = Self(BufReader::new(stream));
        assert_eq!(spy.value(), ["psubscribe", "tg:node:*", ":1"]);
        spy
    }

    /// The next message: its channel, and what it says.
    fn message(&mut self) -> (String, Vec<u8>) {
        let value = self.value();
        let [_, _, channel, message] = value.as_slice() else { panic!("{value:?}") };
        (channel.clone(), URL_SAFE_NO_PAD.decode(message).expect("base64"))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// An array of strings and numbers.
    fn value(&mut self) -> Vec<String> {
        let length: usize = self.line()[1..].parse().expect("an array");
        let mut values = Vec::new();
        for _ in 0..length {
            let line = self.line();
            let Some(bytes) = line.strip_prefix('$') else {
                values.push(line);
                continue;
            };
            let mut text = vec![0; bytes.parse::<usize>().expect("a length") + 2];
            self.0.read_exact(&mut text).expect("a string");
            text.truncate(text.len() - 2);
            values.push(String::from_utf8(text).expect("text"));
        }
        values
    }
}

/// Bytes of a message: format, direction, both nodes, number.
const DIRECTION: usize = 1;
const NUMBER: std::ops::Range<usize> = 18..34;

#[test]
fn a_forged_or_replayed_response_explains_nothing() {
    let redis = Redis::start();
    let [a, b] = [(); 2].map(|()| node(&redis.url(), "", &[SECRET]));
    let path = refused(&a);
    explained(&b, &path);
    let mut spy = Spy::new(&redis);
    let here = explained(&b, &path);
    let (_, query) = spy.message();
    let (channel_of_b, response) = spy.message();
    assert_eq!((query[DIRECTION], response[DIRECTION]), (b'q', b'r'));
    let secrets = [here["because"].to_string(), path.replace("/api/v1/decisions/", "")];
    for message in [&query, &response] {
        let text = String::from_utf8_lossy(message);
        assert!(secrets.iter().all(|secret| !text.contains(secret.as_str())), "{text}");
    }
    // A node that does not respond, so that only the forgeries do.
    a.process.freeze();
    let detail = thread::scope(|scope| {
        let asking = scope.spawn(|| unknown(&b.get_as_admin(&path)));
        let (_, query) = spy.message();
        let publish = |message: &[u8]| {
            let text = URL_SAFE_NO_PAD.encode(message);
            redis.command(&["PUBLISH", &channel_of_b, &text]);
        };
        publish(&response);
        let mut replayed = response.clone();
        replayed[NUMBER].copy_from_slice(&query[NUMBER]);
        publish(&replayed);
        let mut forged = query.clone();
        forged[DIRECTION] = b'r';
        publish(&forged);
        ["", "x", "\u{e9}"].iter().for_each(|junk| {
            redis.command(&["PUBLISH", &channel_of_b, junk]);
        });
        asking.join().expect("a response")
    });
    assert!(detail.contains("does not respond"), "{detail}");
    assert_eq!(b.process.errors().matches("is forged").count(), 2, "{}", b.process.errors());
    a.process.signal("CONT");
    assert_eq!(explained(&b, &path), here);
}

#[test]
fn a_flood_of_queries_is_bounded_and_delays_no_check() {
    let redis = Redis::start();
    let [a, b] = [(); 2].map(|()| node(&redis.url(), "", &[SECRET]));
    let path = refused(&a);
    let here = explained(&b, &path);
    let mut spy = Spy::new(&redis);
    explained(&b, &path);
    let (channel_of_a, query) = spy.message();
    // A genuine query, again and again, and forged ones.
    let mut forged = query.clone();
    forged[NUMBER].fill(7);
    for _ in 0..3_000 {
        for message in [&query, &forged] {
            redis.command(&["PUBLISH", &channel_of_a, &URL_SAFE_NO_PAD.encode(message)]);
        }
    }
    assert_eq!(a.check(ALICE)["allowed"], false);
    assert_eq!(explained(&b, &path), here);
    // Callers that wait for a node that does not respond.
    a.process.freeze();
    let statuses: Vec<u16> = thread::scope(|scope| {
        let ask = || scope.spawn(|| b.get_as_admin(&path).status);
        let asking: Vec<_> = (0..40).map(|_| ask()).collect();
        assert_eq!(b.check(ALICE)["allowed"], false, "checks go on");
        asking.into_iter().map(|it| it.join().expect("a response")).collect()
    });
    assert!(statuses.contains(&429) && statuses.contains(&404), "{statuses:?}");
    assert!(statuses.iter().all(|status| [404, 429].contains(status)), "{statuses:?}");
    a.process.signal("CONT");
    assert_eq!(explained(&b, &path), here);
}
