//! Files that people write, and files that nobody should: policies, and the formats that are imported.

mod envoy;
mod hostile_documents;
mod hostile_text;
mod nginx;
