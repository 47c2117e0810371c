//! Real connections to a real listener: what is served, what is refused, and how it ends.

mod certificates;
mod client;
mod encrypted;
mod ending;
mod hosts;
mod limits;
mod server;
mod windows;
