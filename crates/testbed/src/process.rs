//! A server process: started, watched, ended, and never left behind.
//!
//! The kernel is asked (by `setpriv`) to signal it when its parent ends. To the kernel, the parent is
//! the thread that started it, and threads of tests come and go: one that stays starts them all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;

use crate::signal;
use crate::wait::{WAIT_TIMEOUT, try_until};

/// How long a process may take to end by itself when it is asked to.
const GRACE: Duration = Duration::from_secs(8);

/// How long a program may take that is not a server.
const MAX_RUN_TIME: Duration = Duration::from_secs(60);

/// How much of a log helps to see what went wrong.
const LINES_OF_LOG: usize = 40;

/// How to start a server.
pub(crate) struct Recipe {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// Where it runs and writes its log.
    pub(crate) folder: PathBuf,
    /// Whose rights it has, where they are not ours.
    pub(crate) user: Option<String>,
    /// What ends it, with all that it started.
    pub(crate) last_signal: &'static str,
}

/// A server that can be started more than once, one at a time.
pub(crate) struct Process {
    recipe: Recipe,
    child: Mutex<Option<Child>>,
}

impl Process {
    pub(crate) fn new(recipe: Recipe) -> Self {
        Self { recipe, child: Mutex::new(None) }
    }

    /// Starts it and waits until `is_ready`; ends the one that runs, if any.
    pub(crate) fn start(&self, mut is_ready: impl FnMut() -> bool) {
        self.end();
        let name = self.recipe.program.display();
        let log = File::create(self.log_file()).expect("a log file");
        let mut command = command(
            &self.recipe.program,
            self.recipe.user.as_deref(),
            &["--pdeathsig", self.recipe.last_signal],
        );
        command
            .args(&self.recipe.arguments)
            .current_dir(&self.recipe.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log file"))
            .stderr(log);
        let child = spawn(command).unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        *self.child.lock() = Some(child);

        let outcome = try_until(WAIT_TIMEOUT, || {
            let has_ended = self.id().is_none_or(signal::is_gone);
            if !has_ended && is_ready() { Some(true) } else { has_ended.then_some(false) }
        });
        match outcome {
            Some(true) => {}
            Some(false) => panic!("{name} ended at once and said:\n{}", self.log()),
            None => panic!("{name} is not ready after {WAIT_TIMEOUT:?} and said:\n{}", self.log()),
        }
    }

    /// Its process, while it runs.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.lock().as_ref().map(Child::id)
    }

    /// Whether it runs and is not frozen.
    pub(crate) fn is_awake(&self) -> bool {
        self.id().is_some_and(|id| !signal::is_gone(id) && !signal::is_frozen(id))
    }

    /// Sends a signal, if it runs.
    pub(crate) fn send(&self, signal: &str) {
        if let Some(id) = self.id() {
            signal::send(signal, &[id]);
        }
    }

    /// Kills it, and waits for that.
    pub(crate) fn kill(&self) {
        if let Some(mut child) = self.child.lock().take() {
            // An error means that it has ended by itself.
            let _ = child.kill();
            child.wait().expect("the end of a process");
        }
    }

    /// Terminates it, and kills it if that takes too long.
    pub(crate) fn end(&self) {
        if self.recipe.last_signal != "KILL" {
            self.send(self.recipe.last_signal);
            let has_ended = || self.id().is_none_or(signal::is_gone).then_some(());
            // Whether it did or not, what is left to do is the same.
            let _ = try_until(GRACE, has_ended);
        }
        self.kill();
    }

    /// The end of what it said.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(self.log_file()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES_OF_LOG)..].join("\n")
    }

    fn log_file(&self) -> PathBuf {
        self.recipe.folder.join("log")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A command with the rights of a user, or with ours.
pub(crate) fn command(program: &Path, user: Option<&str>, privileges: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(privileges);
    if let Some(user) = user {
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    }
    command.arg("--").arg(program);
    command
}

/// Whether this process may do everything, which some servers refuse to run with.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").expect("/proc can be read").uid() == 0
}

/// Runs a command to its end and hands over what it said; one that fails is a panic.
pub(crate) fn run(command: &mut Command) -> String {
    let mut said = tempfile::tempfile().expect("a temporary file");
    let share = || said.try_clone().expect("a temporary file");
    command.stdin(Stdio::null()).stdout(share()).stderr(share());
    let child = command.spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let ended = try_until(MAX_RUN_TIME, || child.try_wait().expect("the state of a process"));
    let status = ended.unwrap_or_else(|| {
        // Here it has just been seen to run.
        let _ = child.kill();
        child.wait().expect("the end of a process")
    });
    let mut text = String::new();
    said.rewind().and_then(|()| said.read_to_string(&mut text)).expect("what it said");
    assert!(status.success(), "{command:?}, {status}:\n{text}");
    text
}

/// A folder that is gone when this is dropped, and can be recognised where it could not be.
pub(crate) fn temporary_folder() -> TempDir {
    TempDir::with_prefix("tollgate-testbed-").expect("a temporary folder")
}

/// Starts a command from the thread that stays.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, Sender<io::Result<Child>>);
    static ORDERS: LazyLock<Sender<Order>> = LazyLock::new(|| {
        let (orders, received) = mpsc::channel::<Order>();
        thread::Builder::new()
            .name("testbed-parent".into())
            .spawn(move || {
                for (mut command, answer) in received {
                    // The receiver is gone if the test has failed meanwhile.
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("a thread");
        orders
    });
    let (answer, answered) = mpsc::channel();
    ORDERS.send((command, answer)).expect("a thread that stays");
    answered.recv().expect("a thread that answers")
}
