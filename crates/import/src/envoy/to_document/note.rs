//! Notes on the import of a file: everything that a rule says otherwise, or cannot say.

use std::fmt;
use std::sync::Arc;

use tollgate_document::quote;

/// A difference between the rules and the file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EnvoyNote {
    /// The id of the limit it is about; none if it is about every rule.
    pub limit: Option<Arc<str>>,
    /// What is different.
    pub loss: EnvoyLoss,
}

/// One line: `shop.tenant_acme: it is unlimited, so no rule is made of it`.
impl fmt::Display for EnvoyNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit.as_deref().unwrap_or("every rule");
        write!(f, "{limit}: {}", self.loss)
    }
}

/// What a rule says otherwise than a file, or cannot say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EnvoyLoss {
    /// A rule looks for its own keys only, in any order, and takes key and value apart.
    Entries,
    /// A rule does not see an entry whose value is empty.
    EmptyValue,
    /// No rule: there is nothing to limit.
    Unlimited,
    /// No rule: the key has a `*` in it.
    KeyWildcard,
    /// No rule: this key is on the way to the limit twice.
    RepeatedKey(Arc<str>),
    /// No rule: the key `domain` stands for the domain.
    DomainKey,
    /// No rule: this text is longer than a rule can have it, or has control characters in it.
    Unwritable(Arc<str>),
    /// No rule: counters would be kept by too many keys.
    ManyKeys,
    /// No rule: descriptors before it in the file take everything it would match.
    NeverMet,
    /// The rule applies to a value that the file excepts.
    Exception {
        /// The key.
        key: Arc<str>,
        /// The value, or a pattern for several.
        value: Arc<str>,
    },
    /// The rule applies to descriptors of these keys too, which go on in the file, to other limits or
    /// to none.
    Deeper(Vec<Arc<str>>),
    /// The rule applies to descriptors with the same keys in this order too.
    Order(Vec<Arc<str>>),
    /// Key and value of a sibling, taken as one name, look like those of this limit.
    JoinedNames,
    /// It replaces limits of other descriptors of the same request, by these names.
    Replaces(Vec<Arc<str>>),
    /// Metrics name values.
    Metrics,
    /// Answers carry metadata.
    Metadata,
    /// It refuses a request only together with all other quotas.
    Quota,
}

impl EnvoyLoss {
    /// A word that names the kind, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::EmptyValue => "empty_value",
            Self::Unlimited => "unlimited",
            Self::KeyWildcard => "key_wildcard",
            Self::RepeatedKey(_) => "repeated_key",
            Self::DomainKey => "domain_key",
            Self::Unwritable(_) => "unwritable",
            Self::ManyKeys => "many_keys",
            Self::NeverMet => "never_met",
            Self::Exception { .. } => "exception",
            Self::Deeper(_) => "deeper",
            Self::Order(_) => "order",
            Self::JoinedNames => "joined_names",
            Self::Replaces(_) => "replaces",
            Self::Metrics => "metrics",
            Self::Metadata => "metadata",
            Self::Quota => "quota_mode",
        }
    }
}

/// A sentence about the limit, without naming it.
impl fmt::Display for EnvoyLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries => f.write_str(
                "it applies wherever its keys are among those of a descriptor, in any order; in \
                 the file they must be all there are, in this order, and key_value is one name",
            ),
            Self::EmptyValue => f.write_str(
                "an entry with an empty value counts as missing; in the file it is a value like \
                 any other",
            ),
            Self::Unlimited => f.write_str("it is unlimited, so no rule is made of it"),
            Self::KeyWildcard => {
                f.write_str("there is a * in a key, where rules have none; no rule is made of it")
            }
            Self::RepeatedKey(key) => write!(
                f,
                "the key {} is on its way twice, and rules see one value of it; no rule is made of \
                 it",
                quote(key)
            ),
            Self::DomainKey => f.write_str(
                "its key domain means the domain itself in rules; no rule is made of it",
            ),
            Self::Unwritable(text) => write!(
                f,
                "{} is too long for a rule, or has control characters in it; no rule is made of it",
                quote(text)
            ),
            Self::ManyKeys => f.write_str(
                "its counters are kept by more keys than those of a rule can be; no rule is made of \
                 it",
            ),
            Self::NeverMet => f.write_str(
                "no request meets it, since descriptors that come first in the file match all of \
                 them; no rule is made of it",
            ),
            Self::Exception { key, value } => write!(
                f,
                "it applies to {} with the value {} too, which the file excepts",
                quote(key),
                quote(value)
            ),
            Self::Deeper(keys) => write!(
                f,
                "it applies to descriptors of {} too, some of which meet no limit in the file",
                list(keys)
            ),
            Self::Order(keys) => write!(
                f,
                "it applies to descriptors of {} too, which go elsewhere in the file",
                list(keys)
            ),
            Self::JoinedNames => f.write_str(
                "a descriptor beside it has the same name in the file for some values, since \
                 key_value is one name there; in rules it is not",
            ),
            Self::Replaces(names) => write!(
                f,
                "it replaces {} within one descriptor only, not in the others of a request",
                list(names)
            ),
            Self::Metrics => f.write_str("metrics name the rule, not the values of requests"),
            Self::Metadata => f.write_str("its metadata is not part of answers"),
            Self::Quota => f.write_str(
                "it refuses by itself; in the file it refuses only if all limits in quota_mode that \
                 a request meets are exceeded",
            ),
        }
    }
}

fn list(names: &[Arc<str>]) -> String {
    names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", ")
}
