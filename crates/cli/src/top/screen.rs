//! The terminal while the view is on it: another screen, without echo. What was there before comes back however the
//! command ends.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

use crate::failure::Failure;

/// Whether the terminal is to be restored. A panic of another thread restores it, too.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);
static PANIC_HOOK: Once = Once::new();

/// The terminal; it is restored when this is dropped.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal over.
    pub(super) fn enter() -> Result<Self, Failure> {
        PANIC_HOOK.call_once(|| {
            let report = panic::take_hook();
            // On the screen of the view, the message would be lost.
            panic::set_hook(Box::new(move |info| {
                leave();
                report(info);
            }));
        });
        let entered = || {
            enable_raw_mode()?;
            IS_ENTERED.store(true, Ordering::SeqCst);
            execute!(stdout(), EnterAlternateScreen, Hide)?;
            Terminal::new(CrosstermBackend::new(stdout()))
        };
        let terminal = entered().map_err(|error: io::Error| {
            leave();
            Failure::usage(format!("cannot use this terminal: {error}"))
        })?;
        Ok(Self { terminal })
    }

    /// Draws everything; what has not changed is not sent.
    pub(super) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        // After the panic of another thread, nothing is drawn over its message.
        if IS_ENTERED.load(Ordering::SeqCst) {
            self.terminal.draw(render)?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Restores the terminal, once. A terminal that is gone cannot be restored, and need not be.
fn leave() {
    if IS_ENTERED.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

    /// Says to the test that it runs in a terminal, and is to panic there.
    const IN_TERMINAL: &str = "TOLLGATE_TEST_PANIC_IN_TERMINAL";

    /// The test runs itself in a terminal.
    #[test]
    fn a_panic_restores_the_terminal_and_shows_its_message() {
        if env::var_os(IN_TERMINAL).is_some() {
            let _screen = Screen::enter().expect("a terminal");
            panic!("the roof is on fire");
        }
        let program = env::current_exe().expect("this test");
        let name = "top::screen::tests::a_panic_restores_the_terminal_and_shows_its_message";
        let inner = format!("{} --exact {name} --nocapture; stty -a", program.display());
        let ran = Command::new("/usr/bin/script")
            .args(["--quiet", "--command", &inner, "/dev/null"])
            .env(IN_TERMINAL, "1")
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .stdin(std::process::Stdio::null())
            .output()
            .expect("script runs: util-linux has it");
        let shown = String::from_utf8_lossy(&ran.stdout);
        let place = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text:?}: {shown:?}"));
        let (enter, leave) = (place("\u{1b}[?1049h"), place("\u{1b}[?1049l"));
        let (cursor, message) = (place("\u{1b}[?25h"), place("the roof is on fire"));
        assert!(enter < leave && leave < cursor && cursor < message, "{shown:?}");
        assert_eq!(shown.matches("\u{1b}[?1049l").count(), 1, "{shown:?}");
        // As it was before: lines, with an echo.
        assert!(shown.contains(" icanon ") && shown.contains(" echo "), "{shown:?}");
    }
}
