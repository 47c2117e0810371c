//! A rollback: edits that bring the policy back to an earlier revision. They are validated like any others, and make a
//! new revision.

use crate::catalog::Catalog;
use crate::db::database::{DatabaseConnection, values};
use crate::db::tables;
use crate::entry::kind::Kind;
use crate::error::CatalogError;
use crate::read::history::parse_visible;
use crate::write::{Author, Edit, Expect};

const LAST_AUTHOR: &str = "SELECT author_tenant FROM tollgate_changes \
    WHERE kind = $1 AND entry = $2 ORDER BY revision DESC LIMIT 1";

impl Catalog {
    /// The edits of a rollback, of one kind of entries if that is given. Administrators of a tenant roll back the entries that they wrote or removed last;
    /// what operators did since then stays.
    pub(crate) async fn rollback_edits(
        &self,
        connection: &mut DatabaseConnection,
        author: &Author,
        revision: u64,
        only: Option<Kind>,
    ) -> Result<Vec<Edit>, CatalogError> {
        let tenant = author.tenant.as_deref();
        let bodies = self.bodies_at(connection, tenant, revision).await?;
        let mut edits = Vec::with_capacity(bodies.len());
        for ((kind, name), body) in bodies {
            if only.is_some_and(|only| only != kind) {
                continue;
            }
            if let Some(tenant) = tenant
                && !self.is_last_author(connection, tenant, kind, &name).await?
            {
                continue;
            }
            let expect = Expect::Anything;
            edits.push(match parse_visible(kind, body, tenant)? {
                Some(entry) => Edit::Put { entry: (*entry).clone(), expect },
                None => Edit::Remove { kind, name, expect },
            });
        }
        Ok(edits)
    }

    /// Whether administrators of a tenant wrote an entry last; one that is gone, whether they removed it.
    async fn is_last_author(
        &self,
        connection: &mut DatabaseConnection,
        tenant: &str,
        kind: Kind,
        name: &str,
    ) -> Result<bool, CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        if let Some(stored) = tables::find(connection, kind, name).await.map_err(failed)? {
            return Ok(stored.author_tenant.as_deref() == Some(tenant));
        }
        let row = connection.row(LAST_AUTHOR, values![kind.name(), name]).await.map_err(failed)?;
        let author = row.map_or(Ok(None), |row| row.optional_text(0)).map_err(failed)?;
        Ok(author.as_deref() == Some(tenant))
    }
}
