//! The copy of the whole policy that nodes keep in the Redis that counts for them, sealed with the fleet's secret: for
//! a node that has neither the catalog nor a copy on its disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tollgate::store::{
    PolicyCopyError, PolicyCopyHead, PolicyPublication, RedisPolicyCopy, SealedPolicy,
};
use tollgate::{Revision, Stopwatch, Timestamp};
use tollgate_catalog::{Catalog, CatalogError, PolicyExport, Version, View};

use crate::app::fleet_secret::FleetSecret;
use crate::policy::sealed_policy::{self, PolicyHeader, PolicyText, Refusal};

/// The copy in Redis, and what was noticed about it.
#[derive(Debug, Default)]
pub(crate) struct PolicyCopy {
    redis: Option<RedisPolicyCopy>,
    refused: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    /// The header that was refused last: it is reported once.
    last_refused: Mutex<Option<Vec<u8>>>,
    /// Whether the last publication failed: that is reported once.
    has_failed: AtomicBool,
}

/// Figures about the copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyCopyCounts {
    /// Copies that were not genuine, not whole or not usable.
    pub(crate) refused: u64,
    /// Publications that failed.
    pub(crate) errors: u64,
    /// The size of the copy that this node published or loaded last.
    pub(crate) bytes: u64,
}

/// A policy from Redis.
#[derive(Debug)]
pub(crate) struct OpenedPolicy {
    pub(crate) view: View,
    pub(crate) export: PolicyExport,
    /// When the catalog last responded to the node that published it.
    pub(crate) heard_at: Option<Timestamp>,
}

/// What there is to do about the copy in Redis.
enum CopyState {
    UpToDate,
    /// To be replaced if its revision is older.
    Older,
    /// To be replaced whatever its revision: this header is not genuine, or its chunks are not, or the fleet has another
    /// secret now.
    Invalid(Vec<u8>),
}

impl PolicyCopy {
    pub(crate) fn new(redis: Option<RedisPolicyCopy>) -> Self {
        Self { redis, ..Self::default() }
    }

    pub(crate) const fn is_used(&self) -> bool {
        self.redis.is_some()
    }

    pub(crate) fn counts(&self) -> PolicyCopyCounts {
        PolicyCopyCounts {
            refused: self.refused.load(Relaxed),
            errors: self.errors.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    /// The policy in Redis, if it is genuine and newer than `known`.
    pub(crate) async fn load(
        &self,
        secret: &Arc<FleetSecret>,
        known: Revision,
    ) -> Option<OpenedPolicy> {
        let redis = self.redis.as_ref()?;
        let head = match redis.head().await {
            Ok(head) => head?,
            Err(error) => return self.not_read(&error),
        };
        match genuine(&head, secret) {
            Err(refusal) => return self.refuse(&head.header, &refusal),
            Ok(header) if header.version.revision <= known => return None,
            Ok(_) => {}
        }
        let policy = match redis.read().await {
            Ok(policy) => policy?,
            Err(PolicyCopyError::Broken(why)) => {
                return self.refuse(&head.header, &Refusal::Unusable(why));
            }
            Err(error) => return self.not_read(&error),
        };
        let (bytes, header) = (policy.bytes() as u64, policy.header.clone());
        match open(policy, secret).await {
            // It was replaced by an older one after its head was read.
            Ok(loaded) if loaded.view.version().revision <= known => None,
            Ok(loaded) => match countable(loaded).await {
                Ok(loaded) => {
                    self.bytes.store(bytes, Relaxed);
                    Some(loaded)
                }
                Err(refusal) => self.refuse(&header, &refusal),
            },
            Err(refusal) => self.refuse(&header, &refusal),
        }
    }

    /// The version of the copy in Redis, if it is genuine and not that of `known` or an older one.
    pub(crate) async fn other_version(
        &self,
        secret: &FleetSecret,
        known: Version,
    ) -> Option<Version> {
        let head = self.redis.as_ref()?.head().await.ok()??;
        let found = genuine(&head, secret).ok()?.version;
        (found != known && found.revision >= known.revision).then_some(found)
    }

    /// Publishes the policy of `source`, unless the copy in Redis is genuine and not older than `revision`, which is in
    /// force. With `is_thorough` all of that copy is checked, not only its header. A failure is logged; the next call
    /// retries.
    pub(crate) async fn publish(
        &self,
        secret: &Arc<FleetSecret>,
        revision: Revision,
        is_thorough: bool,
        source: Arc<Catalog>,
        heard_at: Option<Timestamp>,
    ) {
        let Some(redis) = &self.redis else { return };
        let published = async {
            let replaced = match self.state(redis, secret, revision, is_thorough).await? {
                CopyState::UpToDate => return Ok(()),
                CopyState::Older => None,
                CopyState::Invalid(header) => Some(header),
            };
            let began = Stopwatch::start();
            let policy = seal(source, Arc::clone(secret), heard_at).await?;
            let published = redis.publish(&policy, replaced.as_deref()).await.map_err(told)?;
            if published == PolicyPublication::Published {
                self.bytes.store(policy.bytes() as u64, Relaxed);
            }
            let (bytes, took) = (policy.bytes(), began.elapsed());
            tracing::debug!(number = policy.number, bytes, ?took, ?published, "policy published");
            Ok::<(), String>(())
        };
        match published.await {
            Ok(()) => self.has_failed.store(false, Relaxed),
            Err(why) => {
                self.errors.fetch_add(1, Relaxed);
                if !self.has_failed.swap(true, Relaxed) {
                    tracing::warn!("the copy of the policy in Redis is not up to date: {why}");
                }
            }
        }
    }

    async fn state(
        &self,
        redis: &RedisPolicyCopy,
        secret: &Arc<FleetSecret>,
        revision: Revision,
        is_thorough: bool,
    ) -> Result<CopyState, String> {
        let Some(head) = redis.head().await.map_err(told)? else { return Ok(CopyState::Older) };
        let is_up_to_date = match genuine(&head, secret) {
            // The fleet has a new secret: nodes that know only that one are to start from the copy too.
            Ok(header) if header.version.revision == revision && !header.is_of_secret_in_use => {
                return Ok(CopyState::Invalid(head.header));
            }
            Ok(header) => header.version.revision >= revision,
            Err(refusal) => {
                let _: Option<()> = self.refuse(&head.header, &refusal);
                return Ok(CopyState::Invalid(head.header));
            }
        };
        if !is_up_to_date {
            return Ok(CopyState::Older);
        }
        if !is_thorough {
            return Ok(CopyState::UpToDate);
        }
        let opened = match redis.read().await {
            Ok(Some(policy)) => open(policy, secret).await.map(drop),
            Ok(None) => return Ok(CopyState::Older),
            Err(PolicyCopyError::Broken(why)) => Err(Refusal::Unusable(why)),
            Err(error) => return Err(told(error)),
        };
        Ok(match opened {
            Ok(()) => CopyState::UpToDate,
            Err(refusal) => {
                let _: Option<()> = self.refuse(&head.header, &refusal);
                CopyState::Invalid(head.header)
            }
        })
    }

    /// Reports a copy that is not used, once.
    fn refuse<T>(&self, header: &[u8], refusal: &Refusal) -> Option<T> {
        let mut last = self.last_refused.lock();
        if last.as_deref() != Some(header) {
            *last = Some(header.to_vec());
            self.refused.fetch_add(1, Relaxed);
            tracing::error!("the copy of the policy in Redis is refused: {refusal}");
        }
        None
    }

    fn not_read<T>(&self, error: &PolicyCopyError) -> Option<T> {
        if !self.has_failed.swap(true, Relaxed) {
            tracing::error!("the copy of the policy in Redis cannot be read: {error}");
        }
        None
    }
}

/// The header, if it is genuine and of the revision by which writers compare.
fn genuine(head: &PolicyCopyHead, secret: &FleetSecret) -> Result<PolicyHeader, Refusal> {
    let header = PolicyHeader::open(&head.header, secret)?;
    let Revision { epoch, number } = header.version.revision;
    if head.revision == Some((epoch, number)) { Ok(header) } else { Err(Refusal::OtherRevision) }
}

/// The policy, unless this Redis cannot count it: a node of an earlier version may have published it.
async fn countable(loaded: OpenedPolicy) -> Result<OpenedPolicy, Refusal> {
    let unusable = |why: String| Refusal::Unusable(format!("it is an invalid policy: {why}"));
    let checked = spawn_blocking(move || match loaded.view.uncountable_in_redis() {
        none if none.is_empty() => Ok(loaded),
        problems => Err(CatalogError::Invalid(problems).to_string()),
    });
    checked.await.map_err(told).and_then(|checked| checked).map_err(unusable)
}

/// Opens a copy and compiles its rules, on a thread that no request waits for.
async fn open(policy: SealedPolicy, secret: &Arc<FleetSecret>) -> Result<OpenedPolicy, Refusal> {
    let secret = Arc::clone(secret);
    let opened = spawn_blocking(move || {
        let (header, export) = sealed_policy::open(&policy, &secret)?;
        let view = export.view().map_err(|error| Refusal::Unusable(error.to_string()))?;
        Ok(OpenedPolicy { view, export, heard_at: header.heard_at })
    });
    opened.await.map_err(|error| Refusal::Unusable(error.to_string()))?
}

/// Reads, compresses and seals the policy of a catalog, on a thread that no request waits for.
async fn seal(
    source: Arc<Catalog>,
    secret: Arc<FleetSecret>,
    heard_at: Option<Timestamp>,
) -> Result<SealedPolicy, String> {
    let sealed = spawn_blocking(move || {
        let mut text = PolicyText::new();
        let version = Handle::current().block_on(source.export(&mut text)).map_err(told)?;
        text.seal(&secret, version, heard_at).map_err(told)
    });
    sealed.await.map_err(told)?
}

#[expect(clippy::needless_pass_by_value, reason = "it is a function for `map_err`")]
fn told(error: impl ToString) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy of so many rules by one identifier, as a node of an earlier version would have published it.
    async fn check(rules: usize, expected: Option<&str>) {
        let mut text = r#"{"epoch":7,"number":27,"stamp":5}"#.to_owned();
        for number in 0..rules {
            let body = format!(
                r#"{{\"rule_id\":\"r{number:02}\",\"limit\":1,\"window\":\"1h\",\"identifier_type\":\"user_id\"}}"#
            );
            text += &format!(
                "\n{{\"kind\":\"rule\",\"name\":\"r{number:02}\",\"body\":\"{body}\",\"version\":1}}"
            );
        }
        let export = PolicyExport::read(text.as_bytes()).expect("entries");
        let view = export.view().expect("a valid policy");
        let opened = countable(OpenedPolicy { view, export, heard_at: None }).await;
        match (opened, expected) {
            (Ok(opened), None) => assert_eq!(opened.export.len(), rules),
            (Err(refusal), Some(expected)) => {
                let told = refusal.to_string();
                assert!(told.contains(expected) && told.contains("invalid policy"), "{told}");
            }
            (opened, expected) => panic!("{rules} rules: {opened:?}, not {expected:?}"),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_copy_that_this_redis_cannot_count_is_refused() {
        check(64, None).await;
        check(65, Some("rule r64")).await;
    }
}
