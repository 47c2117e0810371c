//! Rules kept in files, and the commands that bring a server's catalog and the files together.

mod apply;
mod arguments;
mod confirm;
mod delete;
mod export;
mod files;
mod plan;
mod soundness;

pub(crate) use apply::{apply, diff};
pub(crate) use arguments::{ApplyArguments, DeleteRulesArguments, DiffArguments, ExportArguments};
pub(crate) use delete::delete;
pub(crate) use export::export;
pub(crate) use files::PolicyFiles;
pub(crate) use soundness::inspect;
