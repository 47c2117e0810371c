//! `tollgate rules import`: the limits of another rate limiter as a policy.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use tollgate::rules::PolicyDocument;
use tollgate::rules::envoy::{EnvoyConfig, FileProblem, Import, Note};

use crate::arguments::{ImportArguments, ImportSource};
use crate::failure::Failure;
use crate::terminal::count;
use crate::yaml::to_yaml;

/// A file as it was read.
struct File {
    name: String,
    text: String,
}

/// What is printed for programs.
#[derive(Serialize)]
struct ImportAnswer<'a> {
    policy: &'a PolicyDocument,
    notes: Vec<NoteAnswer<'a>>,
}

#[derive(Serialize)]
struct NoteAnswer<'a> {
    /// Null, if it is so of every rule.
    limit: Option<&'a str>,
    code: &'static str,
    message: String,
}

/// Prints the policy, and beside it everything that it does not say as the files do.
pub(crate) fn run(arguments: &ImportArguments) -> Result<ExitCode, Failure> {
    let mut files = Vec::new();
    for path in &arguments.files {
        read(path, &mut files)?;
    }
    let ImportSource::Envoy = arguments.from;
    let texts: Vec<_> = files.iter().map(|file| (&*file.name, &*file.text)).collect();
    let config = EnvoyConfig::parse(&texts).map_err(|problems| unusable(&problems, &files))?;
    let Import { document, notes } = config.to_document();
    let text = if arguments.json {
        let notes = notes.iter().map(note_answer).collect();
        serde_json::to_string(&ImportAnswer { policy: &document, notes }).map(|text| text + "\n")
    } else {
        to_yaml(&document)
    };
    let text = text.map_err(|error| Failure::usage(format!("cannot write the policy: {error}")))?;
    io::stdout().lock().write_all(text.as_bytes())?;
    let summary = [
        count(files.len() as u64, "file"),
        count(config.limits().len() as u64, "limit"),
        count(document.rules.len() as u64, "rule"),
    ];
    eprintln!("{}{}", told(&notes), summary.join(", "));
    Ok(ExitCode::SUCCESS)
}

fn note_answer(note: &Note) -> NoteAnswer<'_> {
    NoteAnswer {
        limit: note.limit.as_deref(),
        code: note.loss.code(),
        message: note.loss.to_string(),
    }
}

/// Each thing that is lost once, with all limits that lose it.
fn told(notes: &[Note]) -> String {
    let mut losses: Vec<(String, Vec<&str>)> = Vec::new();
    for note in notes {
        let limit = note.limit.as_deref().unwrap_or("every rule");
        let message = note.loss.to_string();
        match losses.iter_mut().find(|(known, _)| *known == message) {
            Some((_, limits)) => limits.push(limit),
            None => losses.push((message, vec![limit])),
        }
    }
    let line = |(message, limits): &(String, Vec<&str>)| {
        format!("note: {}: {message}\n", limits.join(", "))
    };
    losses.iter().map(line).collect()
}

/// Reads a file, or all files of a folder; `-` is standard input.
fn read(path: &str, files: &mut Vec<File>) -> Result<(), Failure> {
    let failure =
        |name: &str, error: &io::Error| Failure::usage(format!("cannot read {name}: {error}"));
    if path == "-" {
        let name = "standard input";
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(|error| failure(name, &error))?;
        files.push(File { name: name.to_owned(), text });
        return Ok(());
    }
    let paths = if Path::new(path).is_dir() {
        let found = yaml_files(Path::new(path)).map_err(|error| failure(path, &error))?;
        if found.is_empty() {
            return Err(Failure::usage(format!("there is no .yaml or .yml file in {path}")));
        }
        found
    } else {
        vec![PathBuf::from(path)]
    };
    for path in paths {
        let name = path.display().to_string();
        let text = fs::read_to_string(&path).map_err(|error| failure(&name, &error))?;
        files.push(File { name, text });
    }
    Ok(())
}

/// The YAML files of a folder by name, hidden ones left out.
fn yaml_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden =
            path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_yaml = path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml");
        if is_yaml && !is_hidden && fs::metadata(&path)?.is_file() {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Why no policy can be made: each problem above the line it is in.
fn unusable(problems: &[FileProblem], files: &[File]) -> Failure {
    let render = |FileProblem { file, problem }: &FileProblem| {
        let text = files.iter().find(|known| known.name == *file).map(|known| &*known.text);
        problem.render(file, text.unwrap_or_default())
    };
    let shown: Vec<String> = problems.iter().map(render).collect();
    let found = count(problems.len() as u64, "problem");
    Failure::usage(format!("the files cannot be used: {found}\n\n{}", shown.join("\n")))
}
