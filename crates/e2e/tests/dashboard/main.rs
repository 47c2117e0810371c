//! The dashboard: pages and forms of the real binary, over plain HTTP as a browser speaks it.

mod browser;
mod candidate;
mod events;
mod forms;
mod hostile;
mod pages;
mod protection;
mod roles;
mod rules;
mod sessions;
mod simulate;
