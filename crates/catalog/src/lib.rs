//! What operators wrote: rules, tiers, clients, lists, keys and tokens, in SQLite or PostgreSQL.
//!
//! A [`Catalog`] is changed by [`Catalog::write`] alone: one transaction, one revision, one line in the
//! audit log for each entry that changed. Nodes follow the same log: a [`View`] with the changes since
//! its version is the view of the newest version. A change that would make the policy invalid is refused
//! before it is committed.
//!
//! Both databases get the same statements. What differs between them is in four files: views for reports, how to
//! connect, how to begin a transaction, and how a change is announced to other nodes.
#![forbid(unsafe_code)]

mod catalog;
mod db;
mod entry;
mod error;
mod log;
mod read;
mod write;

pub use catalog::{Catalog, Seed, Version};
pub use db::backup::Backup;
pub use db::schema::NEWEST_SCHEMA;
pub use db::tables::Stored;
pub use db::url::CatalogUrl;
pub use entry::access::{ApiKey, NoRandomNumbers, Role, Token, digest_of};
pub use entry::change::{Change, Update};
pub use entry::kind::Kind;
pub use entry::{BanEntry, Entry, ban_name, client_name, listed_name, override_name};
pub use error::CatalogError;
pub use log::audit::{AuditFilter, AuditKind, AuditPlace, AuditRecord};
pub use log::decision_log::Logged;
pub use log::decisions::{
    ClientFilter, DecisionAction, DecisionFilter, DecisionPlace, LoggedDecision,
};
pub use log::resets::{Reset, ResetRecord};
pub use log::revisions::RevisionRecord;
pub use read::export::PolicyExport;
pub use read::load::ChangesSince;
pub use read::page::{EntryPage, Filter};
#[doc(hidden)]
pub use read::query_plan::QueryPlan;
pub use read::view::View;
pub use write::bounds::WriteBounds;
pub use write::ownership::{is_rule_id_of, rule_prefix};
pub use write::validate_policy::PolicyBounds;
pub use write::{Author, Edit, Expect, Intent};
