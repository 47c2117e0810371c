//! The dashboard: pages and forms of the real binary, over plain HTTP as a browser speaks it.

mod browser;
mod candidate;
mod clients;
mod events;
mod figures;
mod fleet;
mod fleet_tail;
mod forms;
mod health;
mod hostile;
mod page_costs;
mod pages;
mod protection;
mod roles;
mod rules;
mod sessions;
mod simulate;
mod try_request;
