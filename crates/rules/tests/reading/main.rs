//! Reading policies, valid and hostile ones.

mod hostile_documents;
