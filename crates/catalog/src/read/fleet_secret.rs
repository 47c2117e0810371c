//! The secret of the fleet: the first node that starts with a catalog makes it, and all others find it there.

use crate::catalog::Catalog;
use crate::db::database::{DatabaseConnection, values};
use crate::entry::access::random_secret;
use crate::error::CatalogError;

const READ: &str = "SELECT secret FROM tollgate_fleet";
/// Of several nodes that start at once, one makes the secret.
const MAKE: &str = "INSERT INTO tollgate_fleet (only_row, secret) VALUES (1, $1) ON CONFLICT (only_row) DO NOTHING";
const REPLACE: &str = "INSERT INTO tollgate_fleet (only_row, secret) VALUES (1, $1) \
                       ON CONFLICT (only_row) DO UPDATE SET secret = excluded.secret";

impl Catalog {
    /// The secret of the fleet, which is made if there is none.
    ///
    /// # Errors
    /// The database cannot be reached, or the system gives no random numbers.
    pub async fn fleet_secret(&self) -> Result<String, CatalogError> {
        if let Some(known) = self.known_fleet_secret().await? {
            return Ok(known);
        }
        let new = random_secret().map_err(|error| CatalogError::Unusable(error.to_string()))?;
        let mut lease = self.connections.to_write().await?;
        self.in_time(lease.connection().run(MAKE, values![new.as_str()])).await?;
        lease.give_back();
        let made = self.known_fleet_secret().await?;
        made.ok_or_else(|| CatalogError::Unusable("the fleet's secret was not stored".to_owned()))
    }

    /// The secret of the fleet, if there is one here.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn known_fleet_secret(&self) -> Result<Option<String>, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let secret = self.in_time(read(lease.connection())).await?;
        lease.give_back();
        Ok(secret)
    }

    /// Keeps the secret of the fleet in a copy of its catalog.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn keep_fleet_secret(&self, secret: &str) -> Result<(), CatalogError> {
        let mut lease = self.connections.to_write().await?;
        self.in_time(lease.connection().run(REPLACE, values![secret])).await?;
        lease.give_back();
        Ok(())
    }
}

async fn read(connection: &mut DatabaseConnection) -> Result<Option<String>, sqlx::Error> {
    connection.row(READ, vec![]).await?.map(|row| row.text(0)).transpose()
}
