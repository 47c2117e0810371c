//! The admin API: who may call what, what each call does, and that it is in force at once.

mod clients;
mod desk;
mod files;
mod fuzz;
mod in_force;
mod keys;
mod lists;
mod paging;
mod rights;
mod rights_table;
mod rules;
mod secrets;
mod tenants;
mod users;
