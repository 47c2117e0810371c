//! What a node starts with while its catalog is unavailable: the newest of the copy on its disk and the one in Redis,
//! or else the built-in rules.

use std::path::Path;
use std::sync::Arc;

use tollgate::identity::Secret;
use tollgate::rules::Source;
use tollgate::{Revision, Timestamp};
use tollgate_catalog::{
    Catalog, CatalogError, CatalogUrl, Change, Entry, PolicyBounds, Seed, Update, Version, View,
};

use crate::app::fleet_secret::FleetSecret;
use crate::app::state::StartError;
use crate::policy::file::DEFAULT_RULES;
use crate::policy::policy_copy::{OpenedPolicy, PolicyCopy};
use crate::settings::Settings;

/// A policy to start with.
pub(crate) struct LastGood {
    pub(crate) view: View,
    /// When the catalog last responded, if that is known.
    pub(crate) heard_at: Option<Timestamp>,
}

/// Warns if other users of this machine can read the file of a catalog. New files are for their owner only.
pub(crate) fn warn_if_exposed(url: &CatalogUrl) {
    if let (Some(mode), Some(file)) = (url.exposed_mode(), url.file()) {
        let file = file.display();
        tracing::warn!(
            "other users can read the catalog {file} (mode {mode:o}): run `chmod 600 {file}*` unless that is intended"
        );
    }
}

/// The first rules of a new catalog.
pub(crate) fn seed() -> Seed {
    Seed { document: Source::parse(DEFAULT_RULES).document }
}

pub(crate) async fn open_copy(
    file: &Path,
    policy_bounds: PolicyBounds,
    now: Timestamp,
) -> Result<Catalog, StartError> {
    let copy = Catalog::new(CatalogUrl::Sqlite(file.to_owned()), policy_bounds);
    let migrated = copy.migrate(now).await;
    migrated.map_err(|error| StartError::new(&format!("catalog_copy: {error}")))?;
    Ok(copy)
}

/// The last policy that this node or its fleet knew, or the built-in rules.
pub(crate) async fn last_good(
    settings: &Settings,
    copy: Option<&Catalog>,
    policy_copy: &PolicyCopy,
) -> Result<LastGood, StartError> {
    let on_disk = match copy {
        Some(copy) => on_disk(copy).await,
        None => None,
    };
    let known = on_disk.as_ref().map_or_else(Revision::default, |view| view.version().revision);
    if let Some(loaded) = in_redis(settings, copy, policy_copy, known, on_disk.is_some()).await {
        let OpenedPolicy { view, export, heard_at } = loaded;
        tracing::warn!(
            revision = view.version().revision.number,
            entries = export.len(),
            "starting with the policy that other nodes published in Redis"
        );
        if let Some(copy) = copy
            && let Err(error) = copy.import(&export).await
        {
            tracing::warn!("the policy from Redis was not copied to the disk: {error}");
        }
        return Ok(LastGood { view, heard_at });
    }
    if let Some(view) = on_disk {
        return Ok(LastGood { view, heard_at: None });
    }
    tracing::error!("there are no last good rules here: starting with those that are built in");
    let invalid = |problems| StartError::new(&CatalogError::Invalid(problems));
    let entries = Entry::all_of(Source::parse(DEFAULT_RULES).document).into_iter();
    let changes: Result<Vec<Change>, _> = entries.map(Change::created).collect();
    let changes = changes.map_err(|problem| invalid(vec![problem]))?;
    let view = View::default().apply(&Update::new(Version::default(), changes)).map_err(invalid)?;
    Ok(LastGood { view, heard_at: None })
}

async fn on_disk(copy: &Catalog) -> Option<View> {
    match copy.view().await {
        Ok(view) => Some(view).filter(|view| view.version() != Version::default()),
        Err(error) => {
            tracing::error!("the copy of the catalog cannot be used: {error}");
            None
        }
    }
}

/// The policy in Redis, if it is newer than the one on this disk.
async fn in_redis(
    settings: &Settings,
    copy: Option<&Catalog>,
    policy_copy: &PolicyCopy,
    known: Revision,
    has_policy: bool,
) -> Option<OpenedPolicy> {
    if !policy_copy.is_used() {
        return None;
    }
    let given = settings.fleet_secret.as_ref().map(|secret| Secret::expose(secret).to_owned());
    let secret = match (given, copy) {
        (Some(given), _) => Some(given),
        (None, Some(copy)) => copy.known_fleet_secret().await.ok().flatten(),
        (None, None) => None,
    };
    let Some(secret) = secret else {
        if !has_policy {
            tracing::error!(
                "the copy of the policy in Redis cannot be read without the fleet's secret: set \
                 TOLLGATE_FLEET_SECRET or fleet.secret_file to the secret of the other nodes"
            );
        }
        return None;
    };
    let previous = settings.fleet_previous_secret.as_ref().map(Secret::expose);
    policy_copy.load(&Arc::new(FleetSecret::new(&secret, previous)), known).await
}
