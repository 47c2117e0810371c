//! What a server opens at its start: the source of its rules, and a mailbox in a catalog that nodes share.

use tokio::sync::mpsc::Receiver;
use tollgate::identity::KnownKey;
use tollgate::store::Mailbox;
use tollgate::{Clock as _, Policy, SystemClock};
use tollgate_catalog::{ApiKey, CatalogUrl};

use crate::app::state::StartError;
use crate::check::decision_id::NodeName;
use crate::policy::catalog_sync::CatalogSync;
use crate::policy::file::PolicyFile;
use crate::policy::rule_cache::RuleCache;
use crate::policy::source::PolicySource;
use crate::settings::Settings;

/// The source of the rules, and the first policy in force.
pub(super) struct Opening {
    pub(super) policy_source: PolicySource,
    pub(super) policy: Policy,
}

impl Opening {
    pub(super) async fn of(settings: &Settings, rule_cache: RuleCache) -> Result<Self, StartError> {
        let for_redis = settings.store.is_redis();
        let now = SystemClock.now();
        if !settings.uses_catalog() {
            let opened = PolicyFile::open(settings.rules.as_deref(), for_redis, now);
            let (source, policy) = opened.map_err(|problem| StartError::new(&problem))?;
            return Ok(Self { policy_source: PolicySource::File(source), policy });
        }
        let catalog_sync = CatalogSync::open(settings, rule_cache, now).await?;
        let policy = catalog_sync.view().policy().clone();
        Ok(Self { policy_source: PolicySource::Catalog(Box::new(catalog_sync)), policy })
    }
}

/// The mailbox of a node whose counters are its own, in a catalog that nodes share.
pub(super) fn catalog_mailbox(
    settings: &Settings,
    node: NodeName,
) -> Option<(Mailbox, Receiver<String>)> {
    match &settings.catalog {
        CatalogUrl::Postgres(options) if settings.uses_catalog() => {
            Some(Mailbox::in_database((**options).clone(), &node.text()))
        }
        _ => None,
    }
}

/// An API key of the catalog, for the identification of clients.
pub(super) fn known_key(key: &ApiKey) -> Option<KnownKey> {
    let digest = format!("sha256:{}", key.digest).parse().ok()?;
    let (owner, tier, tenant) = (key.owner.clone(), key.tier.clone(), key.tenant.clone());
    Some(KnownKey { owner, tier, tenant, ..KnownKey::new(digest) })
}
