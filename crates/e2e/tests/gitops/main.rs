//! Rules in files, tokens, all other entries and schemas, as operators meet them: the real command, against real servers
//! and catalogs, at real terminals.

mod admin;
mod apply;
mod command;
mod complete;
mod delete;
mod entries;
mod everywhere;
mod export;
mod files;
mod history;
mod migrate;
mod operate;
mod prune;
mod questions;
mod recorder;
mod rights;
mod terminal;
mod tokens;
