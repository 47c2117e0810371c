//! How a limiter behaves, told as scripts of questions and answers: one binary, so that it links
//! once.

mod batch;
mod charging;
mod corrections;
mod report;
mod scene;
mod soft;
mod standing;
