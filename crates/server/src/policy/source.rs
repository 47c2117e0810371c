//! Where the rules come from: a file that is edited elsewhere, a catalog that this server writes, or nowhere.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tollgate::{Micros, Revision, Timestamp};

use crate::edge::http::problem::Problem;
use crate::policy::catalog_sync::CatalogSync;
use crate::policy::file::PolicyFile;
use crate::policy::load_status::LoadStatus;
use crate::policy::policy_copy::PolicyCopyCounts;

#[derive(Debug)]
pub(crate) enum PolicySource {
    File(PolicyFile),
    Catalog(Box<CatalogSync>),
}

/// The rules in force.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    pub(crate) revision: Revision,
    pub(crate) since: Timestamp,
    pub(crate) rules: usize,
    /// The beginning of the SHA-256 of the rules file; `None` if the rules are in a catalog.
    pub(crate) file_digest: Option<String>,
    /// The first rule, for examples.
    pub(crate) first: Option<String>,
}

impl PolicySource {
    /// A short description of the rules in force.
    pub(crate) fn summary(&self) -> String {
        let rules = self.in_force().rules;
        let plural = if rules == 1 { "" } else { "s" };
        match self {
            Self::File(source) => {
                let Some(file) = source.file() else {
                    return "none: what no file of envoyproxy/ratelimit limits passes (--rules or \
                            --catalog adds rules)"
                        .to_owned();
                };
                format!("{rules} rule{plural} from {}", file.display())
            }
            Self::Catalog(catalog_sync) if catalog_sync.was_reached() => {
                format!("{rules} rule{plural} in {}", catalog_sync.catalog.url())
            }
            Self::Catalog(catalog_sync) => format!(
                "{rules} rule{plural}, kept or built in, until {} can be reached",
                catalog_sync.catalog.url()
            ),
        }
    }

    pub(crate) fn in_force(&self) -> InForce {
        match self {
            Self::File(source) => {
                let loaded = source.loaded.load();
                let rules = &loaded.document.rules;
                InForce {
                    revision: loaded.revision,
                    since: loaded.at,
                    rules: rules.len(),
                    file_digest: loaded.file_digest.clone(),
                    first: rules.first().map(|rule| rule.rule_id.clone()),
                }
            }
            Self::Catalog(catalog_sync) => {
                let view = catalog_sync.view();
                InForce {
                    revision: view.version().revision,
                    since: catalog_sync.in_force_since(),
                    rules: view.rules().len(),
                    file_digest: None,
                    first: view.rules().keys().next().cloned(),
                }
            }
        }
    }

    /// Whether the built-in rules are in force because no policy could be read yet.
    pub(crate) fn is_awaited(&self) -> bool {
        match self {
            Self::File(_) => false,
            Self::Catalog(catalog_sync) => !catalog_sync.has_policy(),
        }
    }

    /// How often changes could not be put into force.
    pub(crate) fn errors(&self) -> u64 {
        match self {
            Self::File(source) => source.errors.load(Relaxed),
            Self::Catalog(catalog_sync) => catalog_sync.errors.load(Relaxed),
        }
    }

    /// How the last load of the rules file ended; `None` without one.
    pub(crate) fn file_status(&self) -> Option<Arc<LoadStatus>> {
        match self {
            Self::File(source) => source.status(),
            Self::Catalog(_) => None,
        }
    }

    /// How long ago the catalog last responded; `None` for a file, and if that is not known.
    pub(crate) fn silence(&self, now: Timestamp) -> Option<Micros> {
        match self {
            Self::File(_) => None,
            Self::Catalog(catalog_sync) => catalog_sync.silence(now),
        }
    }

    /// What was noticed about the copy of the policy in Redis.
    pub(crate) fn policy_copy(&self) -> PolicyCopyCounts {
        match self {
            Self::File(_) => PolicyCopyCounts::default(),
            Self::Catalog(catalog_sync) => catalog_sync.policy_copy.counts(),
        }
    }

    /// The catalog, for calls that need one.
    pub(crate) fn catalog(&self) -> Result<&CatalogSync, Problem> {
        match self {
            Self::Catalog(catalog_sync) => Ok(catalog_sync),
            Self::File(source) => Err(Problem::not_here(source.file())),
        }
    }
}
