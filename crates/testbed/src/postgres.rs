//! A PostgreSQL server with an empty database, which lives until it is dropped.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use parking_lot::Mutex;
use tempfile::TempDir;

use crate::port::free_port;
use crate::process::{Process, Recipe, command, is_root, run, temporary_folder};
use crate::signal;
use crate::wait::until;

/// The account of the server if we are root: it refuses to run as root.
const USER: &str = "postgres";

/// Where Debian keeps every version that is installed.
const VERSIONS: &str = "/usr/lib/postgresql";

/// What outlives its processes is in the folder, and nothing has to outlive the machine.
const SETTINGS: [&str; 4] = [
    "listen_addresses=127.0.0.1",
    "fsync=off",
    "full_page_writes=off",
    "dynamic_shared_memory_type=mmap",
];

/// A running PostgreSQL. It ends when this is dropped.
pub struct Postgres {
    // First, so that it has ended before its folder goes.
    process: Process,
    folder: TempDir,
    programs: Option<PathBuf>,
    port: u16,
    pause: Mutex<Option<Child>>,
}

impl Postgres {
    /// Starts the newest version that is installed, and returns once it takes connections.
    pub fn start() -> Self {
        let folder = temporary_folder();
        let programs = newest(Path::new(VERSIONS));
        let port = free_port();
        let user = is_root().then_some(USER);
        if let Some(user) = user {
            give(folder.path(), user);
        }
        let data = folder.path().join("data");
        let create = program(programs.as_deref(), "initdb");
        run(command(&create, user, &[])
            .args(["--no-sync", "--no-locale", "--encoding=UTF8", "--auth=trust"])
            .args(["--username", USER, "--pgdata"])
            .arg(&data)
            .current_dir(folder.path()));
        let process = Process::new(Recipe {
            program: program(programs.as_deref(), "postgres"),
            arguments: arguments(folder.path(), &data, port),
            folder: folder.path().to_owned(),
            user: user.map(str::to_owned),
            // It ends those that it started, and gives back what it took from the system.
            last_signal: "QUIT",
        });
        let postgres = Self { process, folder, programs, port, pause: Mutex::new(None) };
        postgres.restart();
        postgres
    }

    /// What a client needs to connect.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port)
    }

    /// Where it listens on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its first process and those that it started, while it runs.
    pub fn process_ids(&self) -> Vec<u32> {
        self.process
            .id()
            .into_iter()
            .flat_map(|id| [vec![id], signal::children(id)].concat())
            .collect()
    }

    /// Runs SQL by `psql`, and hands over what it prints: a line per row, columns apart by `|`.
    pub fn query(&self, sql: &str) -> String {
        let answer = run(Command::new(program(self.programs.as_deref(), "psql"))
            .args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"])
            .args(["--set", "ON_ERROR_STOP=1", "--dbname", &self.url(), "--command", sql]));
        answer.trim_end().to_owned()
    }

    /// Runs a line of the shell, in which the tools of this version are found.
    pub fn shell(&self, line: &str) -> std::process::Output {
        let mut command = Command::new("sh");
        if let Some(programs) = &self.programs {
            let others = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{others}", programs.display()));
        }
        command.args(["-c", line]).output().expect("a shell")
    }

    /// Kills all of its processes without warning, and waits until they are gone.
    pub fn kill(&self) {
        let ids = self.freeze();
        signal::send("KILL", &ids);
        self.process.kill();
        until("the end of PostgreSQL", || ids.iter().all(|id| signal::is_gone(*id)).then_some(()));
        self.resume();
    }

    /// Stops all of its processes (SIGSTOP): connections stay open, and no request gets a response.
    pub fn pause(&self) {
        let mut pause = self.pause.lock();
        if pause.is_none() {
            let ids = self.freeze();
            *pause = Some(continue_at_end_of_input(&ids));
        }
    }

    /// Lets it go on after [`Postgres::pause`].
    pub fn resume(&self) {
        if let Some(mut pause) = self.pause.lock().take() {
            drop(pause.stdin.take());
            pause.wait().expect("the end of a pause");
        }
    }

    /// Lets its files grow to so many bytes, as if the disk were full; with `None` as large as they like.
    pub fn limit_files(&self, most: Option<u64>) {
        let most = most.map_or_else(|| "unlimited".to_owned(), |most| most.to_string());
        let limited = self.process_ids().into_iter().filter(|id| {
            // Only its own user may do that, and only to the limit that can be lifted again.
            let mut limit = command(Path::new("prlimit"), is_root().then_some(USER), &[]);
            limit.args(["--pid", &id.to_string(), &format!("--fsize={most}:")]);
            // One that has just ended needs no limit.
            limit.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        });
        assert!(limited.count() > 1, "`prlimit` does not work");
    }

    /// Starts it again where it was, with what it has; ends it first if it runs.
    pub fn restart(&self) {
        self.resume();
        let is_ready = program(self.programs.as_deref(), "pg_isready");
        self.process.start(|| {
            let mut question = Command::new(&is_ready);
            question.args(["--quiet", "--dbname", &self.url()]);
            question.status().is_ok_and(|status| status.success())
        });
    }

    /// Stops the first process, so that it starts no more of them, and then the others. Each leads a process group,
    /// so one signal does not reach all.
    fn freeze(&self) -> Vec<u32> {
        signal::freeze(self.process.id().as_slice());
        let ids = self.process_ids();
        signal::freeze(&ids);
        ids
    }

    /// Gives back the shared memory that it could not give back itself when it was killed.
    fn release_memory(&self) {
        let Ok(lock) = fs::read_to_string(self.folder.path().join("data/postmaster.pid")) else {
            return;
        };
        let segment = lock.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
        if let Some(segment) = segment {
            // An error means that it is gone.
            let _ = Command::new("ipcrm").args(["-m", segment]).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.resume();
        self.process.end();
        self.release_memory();
    }
}

fn arguments(folder: &Path, data: &Path, port: u16) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["-D".into(), data.into()];
    arguments.extend(["-k".into(), folder.into(), "-p".into(), port.to_string().into()]);
    arguments.extend(SETTINGS.iter().flat_map(|setting| ["-c".into(), setting.into()]));
    arguments
}

/// A process that continues others when its input ends: when we close it, or when we die. Stopped processes could not
/// be ended otherwise.
fn continue_at_end_of_input(ids: &[u32]) -> Child {
    Command::new("sh")
        .args(["-c", "read -r _; kill -s CONT \"$@\"", "sh"])
        .args(ids.iter().map(u32::to_string))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("`sh` does not start: {error}"))
}

/// Makes a user the owner of a folder.
fn give(folder: &Path, user: &str) {
    let id = |option: &str| run(Command::new("id").args([option, user])).trim().parse().ok();
    chown(folder, id("-u"), id("-g")).expect("a folder that can be given away");
}

/// Where the programs of the newest version are; none if they have to be on the path.
fn newest(versions: &Path) -> Option<PathBuf> {
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let installed = fs::read_dir(versions).ok()?.flatten().map(|entry| entry.path());
    let complete = installed.filter(|path| path.join("bin/postgres").exists());
    complete.max_by_key(version).map(|path| path.join("bin"))
}

fn program(folder: Option<&Path>, name: &str) -> PathBuf {
    folder.map_or_else(|| name.into(), |folder| folder.join(name))
}
