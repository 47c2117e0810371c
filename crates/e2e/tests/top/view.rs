//! The view in a terminal: keys, pause, sizes, signals, hostile names, and a server that goes away and comes back.

use std::process::Command;

use tollgate_e2e::server::{Server, Setup};

use crate::terminal::Terminal;
use crate::{OFTEN, check, rules, start, top};

const USUAL: (u16, u16) = (80, 24);

/// The row of the client on the screen.
fn row<'s>(screen: &'s str, client: &str) -> Option<Vec<&'s str>> {
    let rows = screen.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.into_iter().find(|words| words.get(1) == Some(&client))
}

fn has_row(screen: &str, count: &str, client: &str) -> bool {
    row(screen, client).is_some_and(|words| words[0] == count)
}

/// The moment of the figures, at the end of the first line.
fn moment(screen: &str) -> &str {
    screen.lines().next().and_then(|line| line.rsplit("  ").next()).unwrap_or_default()
}

#[test]
fn keys_choose_what_is_shown() {
    let server = start();
    check(&server, "eve", None, 7);
    check(&server, "bob", None, 4);
    check(&server, "ann", None, 2);
    let terminal = Terminal::run(&top(&server, "--interval 500ms"), USUAL);
    let shown = terminal.until_shows(&["most refused", "store memory", "1 node", "requests ↓"]);
    assert!(has_row(&shown, "5", "eve") && has_row(&shown, "2", "bob"), "{shown}");
    assert!(row(&shown, "ann").is_none(), "{shown}");
    assert_eq!(terminal.fact("alternate_on"), "1");
    assert_eq!(terminal.fact("cursor_flag"), "0");
    assert!(shown.starts_with(&format!("tollgate top  {}", server.url(""))), "{shown}");
    // The other lists.
    terminal.press(&["Tab"]);
    terminal.until("those near a limit", |it| it.contains("100 %") && has_row(it, "1", "100"));
    terminal.press(&["3"]);
    terminal.until("all clients", |it| has_row(it, "7", "eve") && has_row(it, "2", "ann"));
    terminal.press(&["4"]);
    terminal.until("the shadow rule", |it| has_row(it, "1", "eve") && has_row(it, "1", "ann"));
    terminal.press(&["BTab"]);
    terminal.until("all clients", |it| has_row(it, "7", "eve") && has_row(it, "2", "ann"));
    // Another order.
    terminal.press(&["s"]);
    terminal
        .until("names in order", |it| it.contains("client ↑") && it.find("ann") < it.find("bob"));
    terminal.press(&["r"]);
    terminal
        .until("names in reverse", |it| it.contains("client ↓") && it.find("eve") < it.find("bob"));
    // A filter.
    terminal.press(&["/", "E", "v"]);
    terminal.until("the filter", |it| it.contains("filter: ev_") && row(it, "bob").is_none());
    terminal.press(&["Enter"]);
    terminal.until_shows(&["1 of 3 with \"ev\""]);
    terminal.press(&["Escape"]);
    terminal.until("no filter", |it| row(it, "bob").is_some());
    // Rules and endpoints instead of clients, and further back.
    terminal.press(&["b"]);
    terminal.until("rules", |it| it.contains("by rule") && has_row(it, "13", "search"));
    terminal.press(&["b", "w"]);
    terminal.until("endpoints", |it| it.contains("the last 3 min") && has_row(it, "13", "/orders"));
    terminal.press(&["?"]);
    terminal.until_shows(&["reverse the order", "q, Ctrl-C"]);
    terminal.press(&["?", "q"]);
    terminal.until_restored(0);
}

#[test]
fn a_view_that_pauses_shows_nothing_new() {
    let server = start();
    check(&server, "eve", None, 7);
    let [paused, other] = [(); 2].map(|()| Terminal::run(&top(&server, "--interval 500ms"), USUAL));
    for terminal in [&paused, &other] {
        terminal.until("refusals", |it| has_row(it, "5", "eve"));
    }
    paused.press(&["p"]);
    paused.until_shows(&["PAUSED at"]);
    check(&server, "eve", None, 10);
    let shown = other.until("more refusals", |it| has_row(it, "15", "eve"));
    // The other one asks as often: once it has been three seconds further, this one would have asked, too.
    let mut last = moment(&shown).to_owned();
    for _ in 0..3 {
        let shown = other.until("a later moment", |it| moment(it) != last);
        last = moment(&shown).to_owned();
    }
    let shown = paused.screen();
    assert!(has_row(&shown, "5", "eve") && shown.contains("PAUSED at"), "{shown}");
    paused.press(&["Space"]);
    let shown = paused.until("what happened since", |it| has_row(it, "15", "eve"));
    assert!(!shown.contains("PAUSED"), "{shown}");
}

#[test]
fn the_view_stays_while_the_server_is_gone() {
    let rules = format!("rules: {}", rules());
    let setup = Setup { rules: Some(&rules), settings: OFTEN, ..Setup::default() };
    let server = Server::start(&setup);
    check(&server, "eve", None, 7);
    let terminal = Terminal::run(&top(&server, "--interval 500ms"), USUAL);
    terminal.until("refusals", |it| has_row(it, "5", "eve"));
    let address = server.address.to_string();
    server.stop();
    let shown = terminal.until_shows(&["NO RESPONSE for ", "retrying: cannot reach"]);
    assert!(has_row(&shown, "5", "eve"), "the last figures stay: {shown}");
    let arguments = ["--http", address.as_str()];
    let server = Server::start(&Setup { arguments: &arguments, ..setup });
    check(&server, "mallory", None, 4);
    let shown = terminal.until("the server is back", |it| has_row(it, "2", "mallory"));
    assert!(!shown.contains("NO RESPONSE") && row(&shown, "eve").is_none(), "{shown}");
    terminal.press(&["C-c"]);
    terminal.until_restored(0);
}

#[test]
fn signals_restore_the_terminal() {
    let server = start();
    for signal in ["INT", "TERM", "HUP"] {
        let terminal = Terminal::run(&top(&server, ""), USUAL);
        terminal.until_shows(&["most refused"]);
        assert_eq!(terminal.fact("alternate_on"), "1");
        terminal.signal(signal);
        terminal.until_restored(0);
    }
}

#[test]
fn the_view_follows_the_size_of_the_terminal() {
    let server = start();
    check(&server, "eve", None, 7);
    let terminal = Terminal::run(&top(&server, "--interval 500ms"), USUAL);
    terminal.until("refusals", |it| has_row(it, "5", "eve"));
    let fits =
        |screen: &str, height: usize| screen.lines().count() <= height && screen.contains("eve");
    for (width, height) in [(40, 10), (20, 5), (12, 2), (132, 50)] {
        terminal.resize(width, height);
        let is_drawn = |screen: &str| {
            let has_courses = screen.lines().nth(1).is_some_and(|line| line.contains("requests/s"));
            fits(screen, height.into()) && has_courses == (height >= 6)
        };
        terminal.until(&format!("{width}x{height}"), is_drawn);
        assert_eq!(terminal.fact("alternate_on"), "1");
    }
    terminal.resize(80, 24);
    terminal.until("everything", |it| has_row(it, "5", "eve") && it.contains("s sort  / filter"));
    terminal.press(&["q"]);
    terminal.until_restored(0);
}

#[test]
fn names_of_clients_do_nothing_to_the_terminal() {
    let server = start();
    let names = [
        "\u{1b}]2;owned\u{7}title",
        "\u{1b}[2J\u{1b}[?1049lscreen",
        "\u{9b}31m\u{9b}2Jcontrols",
        "\u{202e}backwards\u{2066}",
        "zero\u{200b}\u{200d}\u{ad}width",
        "heap\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
        "中文中文中文",
        "line\r\nbreak",
    ];
    for name in names {
        check(&server, name, None, 5);
    }
    check(&server, "eve", None, 4);
    let terminal = Terminal::run(&top(&server, ""), USUAL);
    let shown = terminal.until_shows(&[
        "3  \u{fffd}]2;owned\u{fffd}title",
        "3  \u{fffd}[2J\u{fffd}[?1049lscreen",
        "3  \u{fffd}31m\u{fffd}2Jcontrols",
        "3  \u{fffd}backwards\u{fffd}",
        "3  zero\u{fffd}\u{fffd}\u{fffd}width",
        "3  中文中文中文",
        "3  line\u{fffd}\u{fffd}break",
        "2  eve",
    ]);
    assert!(shown.contains("heap\u{301}\u{301}\u{fffd}"), "{shown}");
    assert_ne!(terminal.fact("pane_title"), "owned");
    assert_eq!(terminal.fact("alternate_on"), "1", "{shown}");
    // Wide characters do not move the column behind them.
    let rule_at = |line: &str| line.split("search").next().map(unicode_columns);
    let places: Vec<_> = shown.lines().filter(|it| it.ends_with("search")).map(rule_at).collect();
    assert_eq!(places.len(), 9, "{shown}");
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}\n{shown}");
}

/// The columns that a text takes, as far as the names of this test go.
fn unicode_columns(text: &str) -> usize {
    let columns = |c: char| match c {
        '\u{300}'..='\u{36f}' => 0,
        '\u{4e00}'..='\u{9fff}' => 2,
        _ => 1,
    };
    text.chars().map(columns).sum()
}

#[test]
fn colours_are_those_that_the_terminal_has() {
    let server = start();
    check(&server, "eve", None, 7);
    let is_coloured = |terminal: &Terminal| {
        terminal.until("refusals", |it| has_row(it, "5", "eve"));
        terminal.coloured_screen().contains("\u{1b}[38;5;")
    };
    let command = top(&server, "");
    assert!(is_coloured(&Terminal::run(&command, USUAL)));
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "vt220")] {
        // The terminal sets TERM itself, so the command gets another one there.
        let mut command = Command::new("/usr/bin/env");
        let inner = top(&server, "");
        command.arg(format!("{name}={value}")).arg(inner.get_program()).args(inner.get_args());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let plain = Terminal::run(&command, USUAL);
        assert!(!is_coloured(&plain), "{name}: {}", plain.coloured_screen());
    }
}
