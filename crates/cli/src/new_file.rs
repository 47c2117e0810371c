//! A file that appears whole or not at all: written beside its place, then renamed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A path that a file can be written to.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    /// Where the text is until it is complete.
    temporary: PathBuf,
}

impl NewFile {
    /// Checks that there can be a file, before the work for it is done.
    pub(crate) fn at(path: &Path) -> Result<Self, Failure> {
        let cannot = |why: &str| Failure::usage(format!("cannot write {}: {why}", path.display()));
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(cannot("name a file, not a folder"));
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        match fs::metadata(folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(cannot(&format!("{} is not a folder", folder.display()))),
            Err(error) => {
                let why = format!("{}: {error}; create the folder first", folder.display());
                return Err(cannot(&why));
            }
        }
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}.tmp", std::process::id()));
        Ok(Self { path: path.to_owned(), temporary: folder.join(temporary) })
    }

    /// Writes the text, and replaces what was there.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        let written =
            self.write_beside(text).and_then(|()| fs::rename(&self.temporary, &self.path));
        written.map_err(|error| {
            // What is not there need not be removed.
            let _ = fs::remove_file(&self.temporary);
            Failure::usage(format!("cannot write {}: {error}", self.path.display()))
        })
    }

    fn write_beside(&self, text: &str) -> io::Result<()> {
        let mut file = File::create_new(&self.temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}
