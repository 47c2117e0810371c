//! A backup of a catalog in a file, taken while servers use it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::catalog::{Catalog, Version};
use crate::db::database::values;
use crate::db::url::CatalogUrl;
use crate::error::CatalogError;
use crate::write::validate_policy::PolicyBounds;

/// What a backup holds.
#[derive(Clone, Copy, Debug)]
pub struct Backup {
    /// The version of its schema.
    pub schema: u64,
    /// The version of the catalog in the backup.
    pub version: Version,
    /// The size of its file.
    pub bytes: u64,
}

impl Catalog {
    /// Writes a backup to a file that must not exist yet: a complete SQLite database, readable by
    /// its owner alone. Servers go on reading and writing meanwhile.
    ///
    /// # Errors
    /// The catalog is not in a file, or the backup cannot be written; then there is no new file.
    pub async fn back_up(&self, file: &Path) -> Result<Backup, CatalogError> {
        if self.url().is_shared() {
            return Err(CatalogError::Unusable(format!(
                "the catalog {} is in PostgreSQL: back it up with pg_dump",
                self.url()
            )));
        }
        // Written beside its place and moved there when it is whole.
        let unfinished =
            UnfinishedBackup::create(file).map_err(|error| unwritable(file, &error))?;
        let path = unfinished.0.to_str().ok_or_else(|| {
            CatalogError::Unusable(format!("{}: the name is not UTF-8", file.display()))
        })?;
        let mut lease = self.connections.to_read().await?;
        let copied = lease.connection().run("VACUUM INTO $1", values![path]).await;
        copied.map_err(|error| self.failed(&error))?;
        lease.give_back();
        let backup = inspect(&unfinished.0).await?;
        unfinished.finish(file).map_err(|error| unwritable(file, &error))?;
        Ok(backup)
    }
}

/// Checks that a backup can be read.
async fn inspect(file: &Path) -> Result<Backup, CatalogError> {
    let copy = Catalog::new(CatalogUrl::Sqlite(file.to_owned()), PolicyBounds::default());
    let inspected = async {
        let mut lease = copy.connections.to_read().await?;
        let failed = |error: sqlx::Error| copy.failed(&error);
        let row = lease.connection().row("PRAGMA integrity_check", vec![]).await.map_err(failed)?;
        let found = row.map(|row| row.text(0)).transpose().map_err(failed)?.unwrap_or_default();
        lease.give_back();
        if found != "ok" {
            return Err(CatalogError::Unusable(format!("the backup is damaged: {found}")));
        }
        Ok((copy.schema_version().await?, copy.version().await?))
    }
    .await;
    copy.close().await;
    let (schema, version) = inspected?;
    let bytes = fs::metadata(file).map_err(|error| unwritable(file, &error))?.len();
    Ok(Backup { schema, version, bytes })
}

/// A file that is removed unless it is finished.
struct UnfinishedBackup(PathBuf);

impl UnfinishedBackup {
    fn create(file: &Path) -> io::Result<Self> {
        if file.try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".unfinished");
        let path = file.with_file_name(name);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self(path))
    }

    /// Renames it to its final name, unless such a file exists by now.
    fn finish(self, file: &Path) -> io::Result<()> {
        File::open(&self.0)?.sync_all()?;
        fs::hard_link(&self.0, file)?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
    }
}

impl Drop for UnfinishedBackup {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn unwritable(file: &Path, error: &io::Error) -> CatalogError {
    let why = match error.kind() {
        io::ErrorKind::AlreadyExists => {
            "it, or the unfinished file of another backup, exists already; choose another name"
                .to_owned()
        }
        _ => error.to_string(),
    };
    CatalogError::Away(format!("cannot write the backup {}: {why}", file.display()))
}
