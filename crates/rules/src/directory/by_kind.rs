//! Entries by client, one table for each kind of identifier that has any: a request is only asked
//! for the identifiers that could be found.

use std::sync::Arc;

use crate::directory::client::{Client, IdentifierSet};
use crate::directory::table::Table;
use crate::plan::facts::Facts;

/// Entries by the values of one kind of identifier.
pub(crate) type ClientTable<V> = Table<Arc<[u8]>, V>;

#[derive(Clone)]
pub(crate) struct ByKind<V> {
    /// In the order of kinds, which is the order of look-ups.
    tables: Vec<(IdentifierSet, ClientTable<V>)>,
}

impl<V> Default for ByKind<V> {
    fn default() -> Self {
        Self { tables: Vec::new() }
    }
}

impl<V: Clone + Default + PartialEq> ByKind<V> {
    /// Changes what is known of a client; the default value is the same as none.
    pub(crate) fn change(&mut self, client: Client, change: impl FnOnce(&mut V)) {
        let at = match self.tables.binary_search_by(|(kind, _)| kind.cmp(&client.kind)) {
            Ok(at) => at,
            Err(at) => {
                self.tables.insert(at, (client.kind, Table::default()));
                at
            }
        };
        let (_, table) = &mut self.tables[at];
        table.change(client.values, change);
        if table.len() == 0 {
            self.tables.remove(at);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.tables.iter().map(|(_, table)| table.len()).sum()
    }

    /// What is known of each client.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.tables.iter().flat_map(|(_, table)| table.values())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// What is known of the client of a request, by each of the accepted kinds in turn.
    pub(crate) fn find<'a>(
        &'a self,
        facts: &Facts<'_>,
        endpoint: &str,
        accept: impl Fn(&IdentifierSet) -> bool,
    ) -> impl DoubleEndedIterator<Item = (&'a IdentifierSet, &'a V)> {
        self.tables
            .iter()
            .filter(move |(kind, _)| accept(kind))
            .filter_map(move |(kind, table)| Some((kind, kind.look_up(table, facts, endpoint)?)))
    }
}
