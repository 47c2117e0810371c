//! Reading files, valid and hostile ones: policies, and the formats that can be imported.

mod envoy;
mod hostile_documents;
mod hostile_text;
mod nginx;
