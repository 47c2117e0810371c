//! The files that are imported, and what is wrong with them.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tollgate_import::FileProblem;

use crate::failure::Failure;
use crate::terminal::count;

/// What standard input is called.
const STANDARD_INPUT: &str = "standard input";

/// A file and what it says.
pub(super) struct File {
    pub(super) name: String,
    pub(super) text: String,
}

/// A file as it was found.
pub(super) struct FoundFile {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Reads all of them: files, `-` for standard input, and folders, of which `choose` says the files.
pub(super) fn read_all(
    paths: &[String],
    choose: impl Fn(&Path) -> io::Result<Vec<PathBuf>>,
    wanted: &str,
) -> Result<Vec<FoundFile>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path == "-" {
            let mut bytes = Vec::new();
            let read = io::stdin().read_to_end(&mut bytes);
            read.map_err(|error| unreadable(STANDARD_INPUT, &error))?;
            files.push(FoundFile { name: STANDARD_INPUT.to_owned(), bytes });
            continue;
        }
        let folder = Path::new(path);
        let found = if folder.is_dir() {
            let found = choose(folder).map_err(|error| unreadable(path, &error))?;
            if found.is_empty() {
                return Err(Failure::usage(format!("there is no {wanted} file in {path}")));
            }
            found
        } else {
            vec![folder.to_owned()]
        };
        for path in found {
            let name = path.display().to_string();
            let bytes = fs::read(&path).map_err(|error| unreadable(&name, &error))?;
            files.push(FoundFile { name, bytes });
        }
    }
    Ok(files)
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read {name}: {error}"))
}

/// The files of a folder with one of these endings by name, hidden ones left out.
pub(super) fn with_ending(folder: &Path, endings: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden =
            path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_wanted =
            path.extension().is_some_and(|ending| endings.iter().any(|it| ending == *it));
        if is_wanted && !is_hidden && fs::metadata(&path)?.is_file() {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// All files of a folder and of those below it by name, hidden ones and links to folders left out.
pub(super) fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if fs::metadata(&path)?.is_file() {
                paths.push(path);
            }
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Why no policy can be made: each problem above the line it is in.
pub(super) fn unusable(problems: &[FileProblem], files: &[File]) -> Failure {
    let render = |FileProblem { file, problem }: &FileProblem| {
        let text = files.iter().find(|known| known.name == *file).map(|known| &*known.text);
        problem.render(file, text.unwrap_or_default())
    };
    let shown: Vec<String> = problems.iter().map(render).collect();
    let found = count(problems.len() as u64, "problem");
    Failure::usage(format!("the files cannot be used: {found}\n\n{}", shown.join("\n")))
}
