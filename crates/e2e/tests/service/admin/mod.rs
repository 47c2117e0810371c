//! The admin API: permissions, what each call does, and that changes are in force at once.

mod clients;
mod desk;
mod files;
mod fuzz;
mod history;
mod in_force;
mod keys;
mod last_writers;
mod lists;
mod paging;
mod rights;
mod rights_table;
mod rules;
mod scheduled;
mod secrets;
mod tenants;
mod users;
