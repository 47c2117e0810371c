//! A process that lives no longer than its test, and whose words are kept.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::until;

/// A process that is ended when this is dropped, in a panic too.
pub(crate) struct Process {
    child: Child,
    output: PathBuf,
    errors: PathBuf,
}

impl Process {
    /// Starts a command; what it says goes into files in `folder`.
    pub(crate) fn start(command: &mut Command, folder: &Path) -> Self {
        let (output, errors) = (folder.join("stdout.txt"), folder.join("stderr.txt"));
        let create = |path: &Path| File::create(path).expect("a file for output");
        let child = command
            .stdin(Stdio::null())
            .stdout(create(&output))
            .stderr(create(&errors))
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        Self { child, output, errors }
    }

    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).expect("its output")).into_owned()
    }

    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.errors).expect("its errors")).into_owned()
    }

    /// Waits until `look` finds something; a process that ends meanwhile never will.
    pub(crate) fn until<T>(&mut self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        until(what, || {
            // First the question, so that nothing said before the end is missed.
            let ended = self.child.try_wait().expect("a state");
            let found = look(self);
            if let (None, Some(status)) = (&found, ended) {
                panic!("no {what}, {status}: {}{}", self.output(), self.errors());
            }
            found
        })
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        until("the end of a process", || self.child.try_wait().expect("a state"))
    }

    /// Sends a signal, like `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success(), "SIG{name} was not sent");
    }

    /// Stops all of its threads where they are, until `CONT` is sent.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
        let threads = format!("/proc/{}/task", self.child.id());
        let is_stopped = |thread: fs::DirEntry| {
            let status = fs::read_to_string(thread.path().join("status"));
            status.is_ok_and(|status| status.contains("State:\tT"))
        };
        until("threads that stand still", || {
            let mut threads = fs::read_dir(&threads).expect("its threads").flatten();
            threads.all(is_stopped).then_some(())
        });
    }

    /// The most memory it ever had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(path).expect("the state of the process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.expect("a peak") * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
