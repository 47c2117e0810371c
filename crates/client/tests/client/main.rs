//! The client against a server that runs, over both protocols, and against everything that may be
//! there instead.

mod batches;
mod bounds;
mod cooldown;
mod decisions;
mod detached;
mod failures;
mod server;
mod trust;
