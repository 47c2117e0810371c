//! A map of millions of entries of which a changed copy costs a few thousand: shards are shared
//! between copies until one of them changes.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;

/// Enough that a shard of a table of millions is copied in well under a millisecond.
const SHARDS: usize = 1024;

/// The seed is random: clients choose their identifiers, so they must not know which collide.
#[derive(Clone)]
pub(crate) struct Table<K, V> {
    shards: Box<[Arc<HashMap<K, V, RandomState>>]>,
    hasher: RandomState,
    len: usize,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        let hasher = RandomState::default();
        let empty = Arc::new(HashMap::with_hasher(hasher.clone()));
        Self { shards: vec![empty; SHARDS].into(), hasher, len: 0 }
    }
}

impl<K: Hash + Eq, V> Table<K, V> {
    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.shards.get(self.shard(key))?.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.shards.iter().flat_map(|shard| shard.keys())
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(|shard| shard.values())
    }

    /// Bits that the maps within do not use themselves.
    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        (self.hasher.hash_one(key) >> 32) as usize % SHARDS
    }
}

impl<K: Hash + Eq + Clone, V: Clone + Default + PartialEq> Table<K, V> {
    /// Changes the entry of a key; an entry equal to the default value is not kept.
    pub(crate) fn change(&mut self, key: K, change: impl FnOnce(&mut V)) {
        let before = self.get(&key).cloned().unwrap_or_default();
        let mut after = before.clone();
        change(&mut after);
        let at = self.shard(&key);
        let Some(shard) = self.shards.get_mut(at).filter(|_| after != before) else { return };
        let shard = Arc::make_mut(shard);
        if after == V::default() {
            shard.remove(&key);
            self.len -= 1;
        } else {
            shard.insert(key, after);
            self.len += usize::from(before == V::default());
        }
    }
}
