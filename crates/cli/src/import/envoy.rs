//! Files of envoyproxy/ratelimit.

use tollgate_import::envoy::{EnvoyConfig, EnvoyImport, EnvoyNote};

use super::file::{File, FoundFile, below, read_all, unusable};
use super::{ImportNote, Imported};
use crate::failure::Failure;

pub(super) fn import(paths: &[String]) -> Result<Imported, Failure> {
    let found = read_all(paths, below, "visible")?;
    let files = found.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let texts: Vec<_> = files.iter().map(|file| (&*file.name, &*file.text)).collect();
    let config = EnvoyConfig::parse(&texts).map_err(|problems| unusable(&problems, &files))?;
    let EnvoyImport { document, notes } = config.to_document();
    Ok(Imported {
        policy: document,
        notes: notes.iter().map(told).collect(),
        counts: vec![(files.len(), "file"), (config.limits().len(), "limit")],
    })
}

fn text(FoundFile { name, bytes }: FoundFile) -> Result<File, Failure> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(File { name, text }),
        Err(_) => Err(Failure::usage(format!("cannot read {name}: it is not a text in UTF-8"))),
    }
}

fn told(note: &EnvoyNote) -> ImportNote {
    ImportNote {
        limit: note.limit.as_deref().map(str::to_owned),
        place: None,
        code: note.loss.code(),
        message: note.loss.to_string(),
    }
}
