//! All entries of a catalog as text, for a copy of the policy outside any database.
//!
//! The first line is the version, each other line an entry. Kinds come in the order of [`Kind::ALL`].

use std::io::{self, BufRead, Write};

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tollgate_rules::Revision;

use crate::catalog::{Catalog, Version, set_version};
use crate::db::database::{DatabaseConnection, values};
use crate::db::tables::{self, Stamp, Stored};
use crate::entry::Entry;
use crate::entry::kind::Kind;
use crate::error::CatalogError;
use crate::read::load::{Lock, page, version_of};
use crate::read::view::{View, ViewBuilder};

/// All entries of a catalog, without its history and without the authors.
#[derive(Clone, Debug)]
pub struct PolicyExport {
    /// The version of the catalog.
    pub version: Version,
    entries: Vec<(ExportLine, Entry)>,
}

/// The version, as the first line.
#[derive(Serialize, Deserialize)]
struct ExportHead {
    epoch: u64,
    number: u64,
    stamp: u64,
}

/// An entry, as a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ExportLine {
    kind: String,
    name: String,
    body: String,
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    author_tenant: Option<String>,
}

impl ExportLine {
    fn of(stored: Stored) -> Self {
        let Stored { kind, name, body, version, tenant, author_tenant, .. } = stored;
        Self { kind: kind.name().to_owned(), name, body, version, tenant, author_tenant }
    }

    fn parse(&self) -> Result<Entry, CatalogError> {
        let kind = Kind::from_name(&self.kind).ok_or_else(|| {
            let kind = &self.kind;
            CatalogError::Unusable(format!("it has entries of the unknown kind {kind:?}"))
        })?;
        Entry::parse(kind, &self.body).map_err(CatalogError::Invalid)
    }
}

impl PolicyExport {
    /// How many entries there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads what [`Catalog::export`] wrote.
    ///
    /// # Errors
    /// It is not such a text, or another version of this program wrote it.
    pub fn read(text: impl BufRead) -> Result<Self, CatalogError> {
        let unreadable = |error: &dyn std::fmt::Display| {
            CatalogError::Unusable(format!("the copy of the policy cannot be read: {error}"))
        };
        let mut lines = text.lines();
        let head = lines.next().transpose().map_err(|error| unreadable(&error))?;
        let head: ExportHead =
            serde_json::from_str(&head.unwrap_or_default()).map_err(|error| unreadable(&error))?;
        let mut entries = Vec::new();
        for line in lines {
            let line = line.map_err(|error| unreadable(&error))?;
            let line: ExportLine =
                serde_json::from_str(&line).map_err(|error| unreadable(&error))?;
            let entry = line.parse()?;
            entries.push((line, entry));
        }
        let revision = Revision { epoch: head.epoch, number: head.number };
        Ok(Self { version: Version { revision, stamp: head.stamp }, entries })
    }

    /// The snapshot that these entries are.
    ///
    /// # Errors
    /// They are not a valid policy.
    pub fn view(&self) -> Result<View, CatalogError> {
        let mut builder = ViewBuilder::default();
        for group in self.entries.chunk_by(|(_, one), (_, other)| one.kind() == other.kind()) {
            let Some((_, first)) = group.first() else { continue };
            let entries = group.iter().map(|(_, entry)| entry.clone()).collect();
            builder.add(first.kind(), entries).map_err(CatalogError::Invalid)?;
        }
        builder.finish(self.version).map_err(CatalogError::Invalid)
    }
}

impl Catalog {
    /// Writes all entries as text, and returns the version they have.
    ///
    /// # Errors
    /// The database cannot be reached, or the text cannot be written.
    pub fn export<'a>(
        &'a self,
        out: &'a mut (dyn Write + Send),
    ) -> BoxFuture<'a, Result<Version, CatalogError>> {
        Box::pin(async move {
            let mut lease = self.connections.to_read().await?;
            let connection = lease.connection();
            self.in_time(connection.begin_reading()).await?;
            let version = self.in_time(version_of(connection, Lock::None)).await?;
            let Version { revision: Revision { epoch, number }, stamp } = version;
            write_line(out, &ExportHead { epoch, number, stamp })?;
            for kind in Kind::ALL {
                let mut after = String::new();
                loop {
                    let page = self.in_time(page(connection, kind, &after)).await?;
                    let Some(last) = page.last() else { break };
                    after.clone_from(&last.name);
                    for stored in page {
                        write_line(out, &ExportLine::of(stored))?;
                    }
                }
            }
            self.in_time(connection.commit()).await?;
            lease.give_back();
            Ok(version)
        })
    }

    /// Replaces this copy of a catalog by exported entries, in one transaction.
    ///
    /// # Errors
    /// The copy cannot be written, and is unchanged.
    pub fn import<'a>(
        &'a self,
        export: &'a PolicyExport,
    ) -> BoxFuture<'a, Result<(), CatalogError>> {
        Box::pin(async move {
            let mut lease = self.connections.to_write().await?;
            let connection = lease.connection();
            self.in_time(connection.begin()).await?;
            self.clear(connection).await?;
            for (line, entry) in &export.entries {
                let stamp = Stamp {
                    version: line.version,
                    at: None,
                    by: None,
                    created: Some((0, "copy")),
                    tenant: line.author_tenant.as_deref(),
                };
                let put = tables::put(connection, &line.name, entry, line.tenant.as_deref(), stamp);
                self.in_time(put).await?;
            }
            self.in_time(set_version(connection, export.version)).await?;
            self.in_time(connection.commit()).await?;
            lease.give_back();
            Ok(())
        })
    }

    /// Removes all entries. A copy has no history either.
    pub(crate) async fn clear(
        &self,
        connection: &mut DatabaseConnection,
    ) -> Result<(), CatalogError> {
        let history = ["tollgate_revisions", "tollgate_resets"].into_iter();
        for table in history.chain(Kind::ALL.into_iter().rev().map(Kind::table)) {
            self.in_time(connection.run(&format!("DELETE FROM {table}"), values![])).await?;
        }
        Ok(())
    }
}

fn write_line(out: &mut (dyn Write + Send), line: &impl Serialize) -> Result<(), CatalogError> {
    let unwritten = |error: &dyn std::fmt::Display| {
        CatalogError::Unusable(format!("the policy cannot be exported: {error}"))
    };
    serde_json::to_writer(&mut *out, line).map_err(|error| unwritten(&error))?;
    out.write_all(b"\n").map_err(|error: io::Error| unwritten(&error))
}
