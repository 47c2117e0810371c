//! What a catalog promises: one suite, run on a SQLite file and on a real PostgreSQL.
//! `TOLLGATE_SOAK_CATALOG=20` makes a campaign of its random sequences.

#[path = "catalog/desk.rs"]
mod desk;
#[path = "support/place.rs"]
mod place;

#[path = "catalog/audit.rs"]
mod audit;
#[path = "catalog/ban_log.rs"]
mod ban_log;
#[path = "catalog/bounds.rs"]
mod bounds;
#[path = "catalog/constraints.rs"]
mod constraints;
#[path = "catalog/copies.rs"]
mod copies;
#[path = "catalog/crowd.rs"]
mod crowd;
#[path = "catalog/decisions.rs"]
mod decisions;
#[path = "catalog/edits.rs"]
mod edits;
#[path = "catalog/history.rs"]
mod history;
#[path = "catalog/indexes.rs"]
mod indexes;
#[path = "catalog/keys.rs"]
mod keys;
#[path = "catalog/last_used.rs"]
mod last_used;
#[path = "catalog/log_bounds.rs"]
mod log_bounds;
#[path = "catalog/migrations.rs"]
mod migrations;
#[path = "catalog/names.rs"]
mod names;
#[path = "catalog/operators.rs"]
mod operators;
#[path = "catalog/ownership.rs"]
mod ownership;
#[path = "catalog/pages.rs"]
mod pages;
#[path = "catalog/soundness.rs"]
mod soundness;

#[path = "catalog/draw.rs"]
mod draw;
#[path = "catalog/model.rs"]
mod model;
#[path = "catalog/model_rights.rs"]
mod model_rights;
#[path = "catalog/sequences.rs"]
mod sequences;
