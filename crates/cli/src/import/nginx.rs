//! Configurations of nginx, with all that they include.

use std::io;
use std::path::{Path, PathBuf};

use tollgate_import::nginx::{self, NginxFile, NginxImport, NginxNote, NoteSubject};

use super::file::{File, FoundFile, read_all, unusable, with_ending};
use super::include::included;
use super::{ImportNote, Imported, Spot};
use crate::failure::Failure;

pub(super) fn import(paths: &[String]) -> Result<Imported, Failure> {
    let found = read_all(paths, configuration, ".conf")?;
    let mut files: Vec<File> = found.into_iter().map(text).collect();
    let given: Vec<_> = files.iter().map(|file| (file.name.clone(), file.text.clone())).collect();
    let texts: Vec<_> = given.iter().map(|(name, text)| (&**name, &**text)).collect();
    let mut include = |top: &str, pattern: &str| {
        let found = included(top, pattern)?;
        let file = |NginxFile { name, text }: &NginxFile| {
            (!files.iter().any(|known| known.name == *name))
                .then(|| File { name: name.clone(), text: text.clone() })
        };
        let new: Vec<_> = found.iter().filter_map(file).collect();
        files.extend(new);
        Ok(found)
    };
    let imported = nginx::import(&texts, &mut include);
    let NginxImport { document, notes, zones, limits } =
        imported.map_err(|problems| unusable(&problems, &files))?;
    Ok(Imported {
        policy: document,
        notes: notes.iter().map(told).collect(),
        counts: vec![(files.len(), "file"), (zones, "zone"), (limits, "limit")],
    })
}

/// nginx does not care what stands in comments, and in words that mean nothing to it.
fn text(FoundFile { name, bytes }: FoundFile) -> File {
    File { name, text: String::from_utf8_lossy(&bytes).into_owned() }
}

/// Of a folder, the file that includes all others, if it is there.
fn configuration(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let whole = folder.join("nginx.conf");
    if whole.is_file() { Ok(vec![whole]) } else { with_ending(folder, &["conf"]) }
}

fn told(note: &NginxNote) -> ImportNote {
    let (limit, place) = match &note.subject {
        NoteSubject::Rule(id) => (Some(id.to_string()), None),
        NoteSubject::Place(place) => {
            let (line, column) = (place.position.line, place.position.column);
            (None, Some(Spot { file: place.file.to_string(), line, column }))
        }
    };
    ImportNote { limit, place, code: note.loss.code(), message: note.loss.to_string() }
}
