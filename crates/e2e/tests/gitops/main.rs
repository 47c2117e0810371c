//! Rules in files, tokens, all other entries and schemas, as operators meet them: the real command, against real servers
//! and catalogs, at real terminals.

mod admin;
mod apply;
mod command;
mod delete;
mod everywhere;
mod export;
mod files;
mod history;
mod migrate;
mod prune;
mod questions;
mod rights;
mod terminal;
mod tokens;
