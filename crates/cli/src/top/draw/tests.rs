//! The view on terminals of many sizes, with texts of all kinds.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::figures::tests::sample;
use super::super::figures::{LiveFigures, ShownRow};
use super::*;
use crate::admin::RankedBy;

fn view() -> TopView {
    let mut view = TopView::new("http://127.0.0.1:8080", RankedBy::Client, 60);
    view.take(Ok(sample()));
    view
}

fn press(view: &mut TopView, keys: &str) {
    for key in keys.chars() {
        view.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
    }
}

/// The lines of the screen, without spaces at their ends, and whether anything is coloured.
fn screen(view: &mut TopView, width: u16, height: u16, paint: Paint) -> (Vec<String>, bool) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, view, paint)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let mut lines = Vec::new();
    for y in 0..height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..width {
            let symbol = buffer[(x, y)].symbol();
            if skip == 0 {
                line.push_str(symbol);
                // A wide character covers the cells behind it.
                skip = symbol.width().max(1);
            }
            skip -= 1;
        }
        assert!(line.width() <= width.into(), "{line:?} is wider than {width}");
        lines.push(line.trim_end().to_owned());
    }
    let is_coloured = |color: Color| color != Color::Reset;
    let has_colours = buffer.content.iter().any(|it| is_coloured(it.fg) || is_coloured(it.bg));
    (lines, has_colours)
}

fn lines(view: &mut TopView, width: u16, height: u16) -> Vec<String> {
    screen(view, width, height, Paint::NONE).0
}

#[test]
fn a_usual_terminal_has_everything() {
    let shown = lines(&mut view(), 80, 24);
    assert_eq!(
        shown[0],
        "tollgate top  http://127.0.0.1:8080                      2015-05-17 10:05:03 UTC"
    );
    assert!(shown[1].starts_with("requests/s       1,234  ▅"), "{}", shown[1]);
    assert!(shown[1].ends_with('█') && shown[1].width() == 80, "{}", shown[1]);
    assert_eq!(shown[2], "refused/s         12.3   ▄▆█");
    assert_eq!(
        shown[3],
        "checks p50 120 us p95 1 ms p99 3 ms  store up  3 nodes  2 bans  revision 7"
    );
    assert_eq!(shown[4], " 1 most refused   2 near limit   3 busiest   4 shadow rules");
    assert_eq!(shown[5], "requests ↓  client      tenant  rule");
    assert_eq!(shown[6], "     1,200  mallory             search");
    assert_eq!(shown[7], "        30  eve         acme    acme.own");
    assert_eq!(shown[9], "");
    assert!(shown[23].starts_with("q quit  ? help  Tab list"), "{}", shown[23]);
}

#[test]
fn every_size_is_drawn() {
    for keys in ["", "2", "3", "4", "?", "/eve", "p"] {
        for width in (1..=30).chain([40, 60, 79, 80, 81, 132, 300]) {
            for height in (1..=14).chain([24, 25, 60]) {
                let mut view = view();
                press(&mut view, keys);
                let shown = lines(&mut view, width, height);
                assert!(shown.iter().any(|line| !line.is_empty()), "{keys} {width}x{height}");
                view.take(Err("cannot reach it".to_owned()));
                lines(&mut view, width, height);
            }
        }
    }
    // What matters most is there, however narrow it is.
    let narrow = lines(&mut view(), 20, 8);
    assert!(narrow.iter().any(|line| line.contains("mallory")), "{narrow:?}");
    assert!(narrow.iter().any(|line| line.starts_with("requests/s 1,234")), "{narrow:?}");
    let tiny = lines(&mut view(), 10, 1);
    assert_eq!(tiny, ["mallory"]);
}

#[test]
fn lists_scroll_within_the_screen() {
    let mut view = view();
    let row = |number: u64| ShownRow {
        count: 1_000 - number,
        name: format!("client-{number}"),
        ..ShownRow::default()
    };
    view.figures.lists[0].rows = (0..100).map(row).collect();
    let shown = lines(&mut view, 80, 24);
    assert!(shown[6].contains("client-0") && shown[22].contains("client-16"), "{shown:?}");
    view.press(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
    let shown = lines(&mut view, 80, 24);
    assert!(shown[6].contains("client-83") && shown[22].contains("client-99"), "{shown:?}");
    // A larger terminal shows more of them, not less.
    let shown = lines(&mut view, 80, 60);
    assert!(shown[6].contains("client-47") && shown[58].contains("client-99"), "{shown:?}");
}

#[test]
fn the_state_of_the_server_is_shown_and_its_last_figures_stay() {
    let mut view = view();
    view.take(Err("cannot reach http://127.0.0.1:8080: connection refused".to_owned()));
    let shown = lines(&mut view, 80, 24);
    assert!(shown[0].ends_with("NO RESPONSE for 0 s"), "{}", shown[0]);
    assert!(shown[3].starts_with("retrying: cannot reach"), "{}", shown[3]);
    assert!(shown[6].contains("mallory"), "{}", shown[6]);
    view.take(Ok(sample()));
    assert!(lines(&mut view, 80, 24)[0].ends_with("10:05:03 UTC"));
    press(&mut view, "p");
    assert!(lines(&mut view, 80, 24)[0].contains("PAUSED at 2015-05-17 10:05:03 UTC"));
}

#[test]
fn empty_lists_say_so() {
    let mut view = view();
    press(&mut view, "4");
    assert!(
        lines(&mut view, 80, 24)[6].starts_with("no refusals by shadow rules in the last 1 min")
    );
    press(&mut view, "1/zz");
    assert!(lines(&mut view, 80, 24)[6].starts_with("nothing with \"zz\""));
    view.figures = LiveFigures::default();
    let shown = lines(&mut view, 80, 24);
    assert!(shown[1].starts_with("decisions/s"), "of a tenant-admin: {shown:?}");
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let mut view = view();
    press(&mut view, "2");
    assert!(screen(&mut view, 80, 24, Paint::ALWAYS).1);
    assert!(!screen(&mut view, 80, 24, Paint::NONE).1);
    view.take(Err("gone".to_owned()));
    assert!(!screen(&mut view, 80, 24, Paint::NONE).1);
}

/// Names of clients are theirs to choose. They are made printable where they are read; what is left are wide characters
/// and letters with marks, which must not move what is beside them.
#[test]
fn hostile_names_stay_in_their_column() {
    let names = [
        "\u{1b}[2J\u{1b}]0;owned\u{7}",
        "\u{202e}drawkcab",
        "中文中文中文中文中文中文中文中文中文中文中文中文中文中文中文中文",
        "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
        "a\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
        "\u{200b}\u{200b}",
        "x\r\ny",
        "\u{9b}31mred",
        &"w".repeat(10_000),
    ];
    for name in names {
        let mut view = view();
        let text = printable(name);
        view.figures.lists[0].rows[0] = ShownRow {
            count: 9_999,
            name: text.clone(),
            tenant: text.clone(),
            rule: text,
            used: None,
        };
        for width in [12, 20, 40, 80, 132] {
            let shown = lines(&mut view, width, 24);
            let is_unsafe =
                |c: char| c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202e}');
            assert!(!shown.iter().any(|line| line.chars().any(is_unsafe)), "{shown:?}");
            // The next row is a line of its own, and begins where it should.
            let next = shown.iter().find(|line| line.contains("eve")).expect("the next row");
            assert!(width < 40 || next.starts_with("        30  eve "), "{shown:?}");
        }
    }
}
