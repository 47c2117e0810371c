//! The pages of the dashboard: view models in, HTML out. Knows no server, no clock and no I/O.

pub mod model;
pub mod path;
