//! A terminal with a command in it, and its keyboard.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tollgate_e2e::until;

/// A command whose input and output are a terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Runs a command whose words need no quotes.
    pub(crate) fn run(command: &Command) -> Self {
        let program = Path::new("/usr/bin/script");
        assert!(program.exists(), "{} is missing: util-linux has it", program.display());
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let mut script = Command::new(program);
        script.args(["--quiet", "--return", "--command", &words.join(" "), "/dev/null"]);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let mut child = script
            .env("SHELL", "/bin/sh")
            .current_dir(command.get_current_dir().expect("a folder"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script runs");
        let screen = Arc::<Mutex<Vec<u8>>>::default();
        let mut output = child.stdout.take().expect("a pipe");
        let seen = Arc::clone(&screen);
        let reader = thread::spawn(move || {
            let mut piece = [0; 1024];
            while let Ok(length @ 1..) = output.read(&mut piece) {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend_from_slice(&piece[..length]);
            }
        });
        let keyboard = child.stdin.take().expect("a pipe");
        Self { child, keyboard, screen, reader: Some(reader) }
    }

    /// Everything that was on the screen.
    pub(crate) fn screen(&self) -> String {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&screen).replace("\r\n", "\n")
    }

    /// Waits until something is on the screen.
    pub(crate) fn await_text(&self, text: &str) {
        until(text, || self.screen().contains(text).then_some(()));
    }

    pub(crate) fn type_line(&mut self, text: &str) {
        writeln!(self.keyboard, "{text}").expect("typed");
    }

    /// Waits for the end of the command: its exit code, and all it showed.
    pub(crate) fn end(mut self) -> (i32, String) {
        let status = until("the end of the command", || self.child.try_wait().expect("a state"));
        self.reader.take().expect("a reader").join().expect("read to its end");
        (status.code().expect("an exit code"), self.screen())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
