//! The view of a fleet: requests of all nodes, and the state of nodes and store.

use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;
use tollgate_testbed::Redis;

use crate::once::json_of;
use crate::terminal::Terminal;
use crate::{OFTEN, check, rules, top};

const SECRET: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef");

#[test]
fn figures_are_those_of_all_nodes() {
    let redis = Redis::start();
    let url = redis.url();
    let (policy, arguments) = (format!("rules: {}", rules()), ["--store", url.as_str()]);
    let setup = Setup {
        rules: Some(&policy),
        settings: OFTEN,
        arguments: &arguments,
        environment: &[SECRET],
    };
    let [one, other] = [(); 2].map(|()| Server::start(&setup));
    check(&one, "eve", None, 7);
    check(&other, "eve", None, 4);
    check(&other, "mallory", None, 5);
    let figures = until("figures of both nodes", || {
        let figures = json_of(&mut top(&one, "--once --json"));
        (figures["totals"]["requests"] == 16).then_some(figures)
    });
    // Counters are shared: each user passes twice.
    assert_eq!(figures["totals"]["refused"], 12, "{figures}");
    let first = &figures["refused"]["top"][0];
    assert_eq!((&first["name"], &first["count"]), (&"eve".into(), &9.into()), "{figures}");
    assert_eq!(figures["store"], "up");
    assert_eq!(figures["nodes"].as_array().map(Vec::len), Some(2), "{figures}");

    let terminal = Terminal::run(&top(&one, "--interval 500ms"), (80, 24));
    terminal.until_shows(&["2 nodes", "store up", "9  eve", "3  mallory"]);
    redis.kill();
    terminal.until("the store is down", |screen| {
        check(&one, "eve", None, 1);
        screen.contains("store down") || screen.contains("store partly up")
    });
    terminal.press(&["q"]);
    terminal.until_restored(0);
}
