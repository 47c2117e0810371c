//! A terminal with a command in it: its screen, its keyboard and its size. tmux is the terminal.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use tollgate_e2e::program::tmux;
use tollgate_e2e::until;

/// Runs the command, and shows what is left of the terminal afterwards. The first word is the file for its id.
const SCRIPT: &str = "\
sh -c 'echo $$ >\"$1\"; shift; exec \"$@\"' - \"$@\"
echo \"ended $?\"
stty -a
exec cat
";

/// A terminal that lives as long as this.
pub(crate) struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// Runs a command in a terminal of that size.
    pub(crate) fn run(command: &Command, (width, height): (u16, u16)) -> Self {
        let terminal = Self { folder: tempfile::tempdir().expect("a folder") };
        let script = terminal.folder.path().join("run.sh");
        fs::write(&script, SCRIPT).expect("written");
        let mut start = terminal.tmux();
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => start.env(name, value),
                None => start.env_remove(name),
            };
        }
        start.args(["-f", "/dev/null", "new-session", "-d"]);
        start.args(["-x", &width.to_string(), "-y", &height.to_string(), "sh"]);
        start.arg(script).arg(terminal.id_file());
        start.arg(command.get_program()).args(command.get_args());
        let started = start.output().expect("tmux runs");
        assert!(started.status.success(), "{started:?}");
        terminal
    }

    fn id_file(&self) -> PathBuf {
        self.folder.path().join("id")
    }

    /// Its own server, whose terminals are no others'.
    fn tmux(&self) -> Command {
        let mut command = tmux();
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").arg("-u");
        command.arg("-S").arg(self.folder.path().join("socket"));
        command
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let asked = self.tmux().args(arguments).output().expect("tmux runs");
        assert!(asked.status.success(), "{arguments:?}: {asked:?}");
        String::from_utf8(asked.stdout).expect("a text")
    }

    /// What is on the screen.
    pub(crate) fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    /// What is on the screen, with colours.
    pub(crate) fn coloured_screen(&self) -> String {
        self.ask(&["capture-pane", "-p", "-e"])
    }

    /// A fact that the terminal knows of itself, in the words of tmux.
    pub(crate) fn fact(&self, name: &str) -> String {
        self.ask(&["display-message", "-p", &format!("#{{{name}}}")]).trim().to_owned()
    }

    /// Presses keys, by their names, one after the other.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    pub(crate) fn resize(&self, width: u16, height: u16) {
        self.ask(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// Sends a signal to the command.
    pub(crate) fn signal(&self, name: &str) {
        let id = fs::read_to_string(self.id_file()).expect("an id");
        let sent = Command::new("kill").args(["-s", name, id.trim()]).status().expect("kill runs");
        assert!(sent.success(), "SIG{name} was not sent");
    }

    /// Waits until the screen is as wanted, and returns it.
    pub(crate) fn until(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until(what, || {
                last = self.screen();
                is_wanted(&last).then(|| last.clone())
            })
        }));
        found.unwrap_or_else(|_| panic!("{what} was not on the screen:\n{last}"))
    }

    /// Waits until all of this is on the screen, and returns it.
    pub(crate) fn until_shows(&self, texts: &[&str]) -> String {
        self.until(&texts.join(", "), |screen| texts.iter().all(|text| screen.contains(text)))
    }

    /// Waits for the end of the command, which must have that code, and leave the terminal as it was.
    pub(crate) fn until_restored(&self, code: i32) -> String {
        let shown = self.until_shows(&[&format!("ended {code}\n"), " icanon ", " echo "]);
        let facts = ["alternate_on", "cursor_flag", "mouse_any_flag"].map(|name| self.fact(name));
        assert_eq!(facts, ["0", "1", "0"], "{shown}");
        shown
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.tmux().arg("kill-server").output();
    }
}
