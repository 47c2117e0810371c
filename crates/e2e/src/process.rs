//! A process that lives no longer than its test, and whose output is kept.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::until;

/// How often any process of the tests has printed something or closed an output.
static HEARD: Mutex<u64> = Mutex::new(0);
static NEWS: Condvar = Condvar::new();

pub(crate) fn heard() -> u64 {
    *HEARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for more output than that, with a timeout.
pub(crate) fn await_more(heard: u64, patience: Duration) {
    let now = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
    drop(NEWS.wait_timeout_while(now, patience, |now| *now == heard));
}

fn tell() {
    *HEARD.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    NEWS.notify_all();
}

/// A process that is ended when this is dropped, in a panic too.
pub struct Process {
    child: Child,
    output: Words,
    errors: Words,
}

/// One output stream of a process.
#[derive(Clone, Default)]
struct Words(Arc<Mutex<(Vec<u8>, bool)>>);

impl Words {
    /// Reads until the stream ends.
    fn listen(mut source: impl Read + Send + 'static) -> Self {
        let words = Self::default();
        let heard = words.clone();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            loop {
                let length = source.read(&mut piece).unwrap_or(0);
                let mut words = heard.0.lock().unwrap_or_else(PoisonError::into_inner);
                words.0.extend_from_slice(&piece[..length]);
                words.1 = length == 0;
                drop(words);
                tell();
                if length == 0 {
                    return;
                }
            }
        });
        words
    }

    fn text(&self) -> String {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&words.0).into_owned()
    }

    fn is_silent(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

impl Process {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let output = Words::listen(child.stdout.take().expect("a pipe"));
        let errors = Words::listen(child.stderr.take().expect("a pipe"));
        Self { child, output, errors }
    }

    /// What it printed.
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// What it logged.
    pub fn errors(&self) -> String {
        self.errors.text()
    }

    /// Its exit status, once it has ended and all output was read.
    fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a state")?;
        (self.output.is_silent() && self.errors.is_silent()).then_some(status)
    }

    /// Polls `look` until it returns something; panics if the process ends before.
    pub fn until<T>(&mut self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        until(what, || {
            // Read the status first, so that no output before the end is missed.
            let ended = self.ended();
            let found = look(self);
            if let (None, Some(status)) = (&found, ended) {
                panic!("no {what}, {status}: {}{}", self.output(), self.errors());
            }
            found
        })
    }

    /// Waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        until("the end of a process", || self.ended())
    }

    /// Sends a signal, like `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success(), "SIG{name} was not sent");
    }

    /// Stops all of its threads where they are, until `CONT` is sent.
    pub fn freeze(&self) {
        self.signal("STOP");
        let threads = format!("/proc/{}/task", self.child.id());
        let is_stopped = |thread: fs::DirEntry| {
            let status = fs::read_to_string(thread.path().join("status"));
            status.is_ok_and(|status| status.contains("State:\tT"))
        };
        until("stopped threads", || {
            let mut threads = fs::read_dir(&threads).expect("its threads").flatten();
            threads.all(is_stopped).then_some(())
        });
    }

    /// How long it has been on a processor, in itself and in the kernel, to the hundredth of a second. Other work on the
    /// machine does not count.
    pub fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("the state of the process");
        // The twelfth and thirteenth field after the name, which may hold spaces and brackets.
        let (_, fields) = stat.rsplit_once(") ").expect("a name");
        let ticks = fields.split(' ').skip(11).take(2).map(|it| it.parse::<u64>().expect("ticks"));
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// The most memory it ever had, in bytes.
    pub fn peak_memory(&self) -> u64 {
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
