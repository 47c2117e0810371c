//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::figures::ListKind;
use super::view::{MAX_FILTER, SortColumn, TopView};
use crate::admin::RankedBy;

/// How far back lists go, in seconds, in the order in which a key changes it.
const WINDOWS: [u64; 3] = [60, 180, 300];

/// All keys, and what they do.
pub(super) const HELP: [(&str, &str); 12] = [
    ("Tab, Shift-Tab, 1 to 4", "choose a list"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "filter by a part of name, tenant or rule"),
    ("Esc", "remove the filter, close this help"),
    ("b", "rank clients, rules or endpoints"),
    ("w", "look back 1, 3 or 5 minutes"),
    ("Up, Down, j, k", "scroll by a row"),
    ("PgUp, PgDn, Home, End", "scroll further"),
    ("p, Space", "pause, and go on"),
    ("?, h", "show this help"),
    ("q, Ctrl-C", "quit"),
];

/// What is to be done after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    Redraw,
    /// The server is asked for something else.
    Ask,
    Quit,
}

impl TopView {
    /// Does what a key means.
    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control {
            let is_end = matches!(key.code, KeyCode::Char('c' | 'C' | 'd' | 'D'));
            return if is_end { KeyEffect::Quit } else { KeyEffect::Redraw };
        }
        if self.is_typing {
            self.type_filter(key.code);
            return KeyEffect::Redraw;
        }
        match key.code {
            KeyCode::Char('q' | 'Q') => return KeyEffect::Quit,
            KeyCode::Char('?' | 'h') => self.is_help = !self.is_help,
            KeyCode::Esc if self.is_help => self.is_help = false,
            KeyCode::Esc => self.filter_by(String::new()),
            KeyCode::Char('/') => {
                self.is_help = false;
                self.is_typing = true;
            }
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                return KeyEffect::Ask;
            }
            KeyCode::Char('b') => {
                self.by = next(&RankedBy::ALL, self.by);
                self.first = 0;
                return KeyEffect::Ask;
            }
            KeyCode::Char('w') => {
                let longer = WINDOWS.into_iter().find(|window| *window > self.window);
                self.window = longer.unwrap_or(WINDOWS[0]);
                return KeyEffect::Ask;
            }
            KeyCode::Char('s') => self.sort = next(&self.columns(), self.sort),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Tab | KeyCode::Right => self.choose(next(&ListKind::ALL, self.list)),
            KeyCode::BackTab | KeyCode::Left => {
                let mut lists = ListKind::ALL;
                lists.reverse();
                self.choose(next(&lists, self.list));
            }
            KeyCode::Char(digit @ '1'..='4') => {
                self.choose(ListKind::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Up | KeyCode::Char('k') => self.scroll_to(self.first.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_to(self.first + 1),
            KeyCode::PageUp => self.scroll_to(self.first.saturating_sub(self.page)),
            KeyCode::PageDown => self.scroll_to(self.first + self.page),
            KeyCode::Home => self.scroll_to(0),
            KeyCode::End => self.scroll_to(usize::MAX),
            _ => {}
        }
        KeyEffect::Redraw
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter_by(String::new());
            }
            KeyCode::Backspace => {
                let mut filter = self.filter.clone();
                filter.pop();
                self.filter_by(filter);
            }
            KeyCode::Char(c) if self.filter.chars().count() < MAX_FILTER => {
                let filter = self.filter.chars().chain(c.to_lowercase()).collect();
                self.filter_by(filter);
            }
            _ => {}
        }
    }

    fn filter_by(&mut self, filter: String) {
        self.filter = filter;
        self.first = 0;
    }

    fn choose(&mut self, list: ListKind) {
        self.list = list;
        self.first = 0;
        // A column that this list does not have cannot be seen to be the one.
        if !self.columns().contains(&self.sort) {
            self.sort = SortColumn::Count;
        }
    }

    /// Shows rows from that one on, and never less than a page of them.
    pub(super) fn scroll_to(&mut self, first: usize) {
        let last = self.rows().len().saturating_sub(self.page);
        self.first = first.min(last);
    }
}

/// The item after that one; after the last, or if there is none, the first.
fn next<T: Copy + PartialEq>(items: &[T], item: T) -> T {
    let place = items.iter().position(|it| *it == item).map_or(0, |place| place + 1);
    items.get(place).or(items.first()).copied().unwrap_or(item)
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyModifiers;

    use super::super::figures::tests::sample;
    use super::*;

    fn view() -> TopView {
        let mut view = TopView::new("http://localhost", RankedBy::Client, 60);
        view.take(Ok(sample()));
        view.page = 2;
        view
    }

    fn press(view: &mut TopView, keys: &str) -> KeyEffect {
        let mut effect = KeyEffect::Redraw;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\u{1b}' => KeyCode::Esc,
                '\u{8}' => KeyCode::Backspace,
                key => KeyCode::Char(key),
            };
            effect = view.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
        effect
    }

    fn names(view: &TopView) -> Vec<&str> {
        view.rows().iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn keys_sort_and_filter() {
        let check = |keys: &str, expected: &[&str]| {
            let mut view = view();
            press(&mut view, keys);
            assert_eq!(names(&view), expected, "{keys:?}");
        };
        check("", &["mallory", "eve", "bob"]);
        check("r", &["bob", "eve", "mallory"]);
        check("s", &["bob", "eve", "mallory"]);
        check("ss", &["mallory", "bob", "eve"]);
        check("sss", &["eve", "mallory", "bob"]);
        check("ssss", &["mallory", "eve", "bob"]);
        check("2", &["ann"]);
        check("\t\t", &["mallory", "ann", "eve", "bob"]);
        check("/EV\n", &["eve"]);
        check("/search\n", &["mallory", "bob"]);
        check("/acme", &["eve"]);
        check("/xyz", &[]);
        check("/xyz\u{8}\u{8}\u{8}", &["mallory", "eve", "bob"]);
        check("/xyz\u{1b}", &["mallory", "eve", "bob"]);
        check("/ev\n\u{1b}", &["mallory", "eve", "bob"]);
        // While a filter is typed, keys are letters.
        check("/q", &[]);
    }

    #[test]
    fn keys_say_what_the_server_is_asked_for() {
        let mut view = view();
        assert_eq!(press(&mut view, "w"), KeyEffect::Ask);
        assert_eq!(view.order().window, 180);
        press(&mut view, "ww");
        assert_eq!(view.order().window, 60);
        assert_eq!(press(&mut view, "b"), KeyEffect::Ask);
        assert_eq!(view.order().by, RankedBy::Rule);
        assert_eq!(press(&mut view, "q"), KeyEffect::Quit);
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut view, "/");
        assert_eq!(view.press(control), KeyEffect::Quit, "also while a filter is typed");
    }

    #[test]
    fn a_view_that_pauses_stays_as_it_is() {
        let mut view = view();
        assert_eq!(press(&mut view, "p"), KeyEffect::Ask);
        assert!(view.order().is_paused);
        view.take(Ok(super::super::figures::LiveFigures::default()));
        view.take(Err("gone".to_owned()));
        assert!(names(&view).len() == 3 && view.lost.is_none());
        press(&mut view, " ");
        view.take(Err("gone\nand more".to_owned()));
        assert_eq!(view.lost.as_ref().map(|lost| lost.why.as_str()), Some("gone"));
        assert_eq!(names(&view).len(), 3, "the last figures stay");
        view.take(Ok(sample()));
        assert!(view.lost.is_none());
    }

    #[test]
    fn scrolling_ends_with_the_rows() {
        let mut view = view();
        press(&mut view, "jjjj");
        assert_eq!(view.first, 1);
        press(&mut view, "k");
        assert_eq!(view.first, 0);
        view.press(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
        assert_eq!(view.first, 1);
        view.press(KeyEvent::new(KeyCode::PageUp, KeyModifiers::NONE));
        assert_eq!(view.first, 0);
        press(&mut view, &format!("/{}", "x".repeat(500)));
        assert_eq!(view.filter.len(), MAX_FILTER);
    }
}
