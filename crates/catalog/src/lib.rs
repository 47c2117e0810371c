//! What operators wrote: rules, tiers, clients, lists, keys and tokens, in SQLite or PostgreSQL.
//!
//! A [`Catalog`] is changed by [`Catalog::write`] alone: one transaction, one revision, one line in the
//! audit log for each entry that is not what it was. What the log tells is also what nodes bring
//! themselves up to date by: a [`View`] with the changes since its own state is the view of the newest
//! state. A change that would make no sound policy is refused before it is kept.
//!
//! Both databases get the same statements. What differs between them is in three files: how to
//! connect, how to begin a transaction, and how one is told that something changed.
#![forbid(unsafe_code)]

mod access;
mod audit;
mod backup;
mod ban_log;
mod bans;
mod bounds;
mod catalog;
mod change;
mod check;
mod connections;
mod database;
mod decision_log;
mod decisions;
mod digest_keys;
mod disk_space;
mod entry;
mod error;
mod fits;
mod kind;
mod last_used;
mod listen;
mod load;
mod make;
mod ownership;
mod plans;
mod read;
mod resets;
mod resolve;
mod schema;
mod tables;
mod url;
mod view;
mod write;

pub use access::{ApiKey, NoRandomNumbers, Role, Token, digest_of};
pub use audit::{Act, AuditFilter, AuditKind, AuditPlace, AuditRecord};
pub use backup::Backup;
pub use bounds::WriteBounds;
pub use catalog::{Beginning, Catalog, Head};
pub use change::Change;
pub use check::Purpose;
pub use decision_log::Logged;
pub use decisions::{DecisionAction, DecisionFilter, DecisionPlace, DecisionRecord};
pub use entry::{Ban, Entry, ban_name, client_name, listed_name, override_name};
pub use error::CatalogError;
pub use kind::Kind;
pub use load::Since;
#[doc(hidden)]
pub use plans::Question;
pub use read::{Filter, Page};
pub use resets::{Reset, ResetRecord};
pub use schema::NEWEST_SCHEMA;
pub use tables::Stored;
pub use url::CatalogUrl;
pub use view::View;
pub use write::{Author, Edit, Expect, Intent, Written};
