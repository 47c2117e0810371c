//! Rules kept in files, and the commands that bring a server's catalog and the files together.

mod apply;
mod arguments;
mod confirm;
mod delete;
mod export;
mod files;
mod history;
mod plan;
mod planned_write;
mod preview;
mod soundness;

pub(crate) use apply::{apply, diff};
pub(crate) use arguments::{
    ApplyArguments, DeleteRulesArguments, DiffArguments, ExportArguments, HistoryArguments,
    RollbackArguments, ShowArguments,
};
pub(crate) use confirm::confirm;
pub(crate) use delete::delete;
pub(crate) use export::export;
pub(crate) use files::{PolicyFiles, files_in};
pub(crate) use history::{history, rollback, show};
pub(crate) use plan::ChangePlan;
pub(crate) use preview::{PreviewArguments, preview};
pub(crate) use soundness::inspect;
