//! A clock of a server that a test sets ahead while the server runs, loaded before all other libraries.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// By how many seconds the clock is set ahead.
const SECONDS: u64 = 90;

/// Loaded before all other libraries: the clock is ahead once the file exists.
const SOURCE: &str = "#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    const char *file = getenv(\"CLOCK_AHEAD\");
    if (!failed && clock == CLOCK_REALTIME && file && access(file, F_OK) == 0) now->tv_sec += SECONDS;
    return failed;
}
";

/// A clock that can be set ahead.
pub struct SettableClock {
    library: String,
    file: PathBuf,
    _folder: TempDir,
}

impl Default for SettableClock {
    fn default() -> Self {
        Self::new()
    }
}

impl SettableClock {
    /// Compiles it.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, library) = (folder.path().join("clock.c"), folder.path().join("clock.so"));
        fs::write(&source, SOURCE).expect("written");
        let compiled = Command::new("cc")
            .arg(format!("-DSECONDS={SECONDS}"))
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .status()
            .expect("cc runs: scripts/test installs it");
        assert!(compiled.success());
        let library = library.to_str().expect("a readable path").to_owned();
        Self { library, file: folder.path().join("ahead"), _folder: folder }
    }

    /// The variables of a server that has this clock.
    #[must_use]
    pub fn environment(&self) -> [(&str, &str); 2] {
        let file = self.file.to_str().expect("a readable path");
        [("LD_PRELOAD", self.library.as_str()), ("CLOCK_AHEAD", file)]
    }

    /// Sets it 90 seconds ahead.
    pub fn set_ahead(&self) {
        File::create(&self.file).expect("a file");
    }
}
