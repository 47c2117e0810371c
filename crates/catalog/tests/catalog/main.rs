//! What a catalog promises: one suite, run on a SQLite file and on a real PostgreSQL.
//! `TOLLGATE_SOAK_CATALOG=20` makes a campaign of its random sequences.

mod desk;
mod place;

mod audit;
mod ban_log;
mod bans;
mod bounds;
mod constraints;
mod copies;
mod crowd;
mod decisions;
mod edits;
mod history;
mod indexes;
mod keys;
mod last_used;
mod log_bounds;
mod migrations;
mod names;
mod operators;
mod ownership;
mod pages;
mod reports;
mod rollback;
mod soundness;

mod draw;
mod model;
mod model_rights;
mod sequences;
