//! The database: connections, statements, tables and their versions, the same for SQLite and PostgreSQL.

pub(crate) mod backup;
pub(crate) mod connections;
pub(crate) mod database;
mod digest_keys;
pub(crate) mod disk_space;
mod listen;
pub(crate) mod reports;
mod rule_windows;
pub(crate) mod schema;
pub(crate) mod tables;
pub(crate) mod url;
