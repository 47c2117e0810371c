//! Requests and verdicts in a notation short enough for tables.

use tollgate_import::envoy::{Allowance, Descriptor, DescriptorVerdict, EnvoyConfig};

/// A valid file.
#[track_caller]
pub(crate) fn config(text: &str) -> EnvoyConfig {
    match EnvoyConfig::parse(&[("test.yaml", text)]) {
        Ok(config) => config,
        Err(problems) => panic!("{text}\n{problems:#?}"),
    }
}

/// The entries of a descriptor written as `a=1,b=2`.
pub(crate) fn entries(text: &str) -> Vec<(&str, &str)> {
    let entry = |text| str::split_once(text, '=').expect("an entry is key=value");
    text.split(',').filter(|text| !text.is_empty()).map(entry).collect()
}

/// The verdicts on descriptors written as `a=1,b=2 | c=3`. A `!` before a descriptor says that it
/// carries its own limit.
pub(crate) fn verdicts(
    config: &EnvoyConfig,
    domain: &str,
    request: &str,
) -> Option<Vec<DescriptorVerdict>> {
    let descriptors = request.split('|').map(str::trim);
    let descriptors = descriptors
        .map(|text| (entries(text.trim_start_matches('!')), text.starts_with('!')))
        .collect::<Vec<_>>();
    let descriptors = descriptors
        .iter()
        .map(|(entries, carries_limit)| Descriptor { entries, carries_limit: *carries_limit })
        .collect::<Vec<_>>();
    config.judge(domain, &descriptors)
}

/// The verdicts in words, and a limit by its number of requests, which names it in these tests.
pub(crate) fn in_words(config: &EnvoyConfig, domain: &str, request: &str) -> String {
    let Some(verdicts) = verdicts(config, domain, request) else {
        return "no domain".to_owned();
    };
    let word = |verdict| match verdict {
        DescriptorVerdict::Unmatched => "none".to_owned(),
        DescriptorVerdict::Unlimited => "unlimited".to_owned(),
        DescriptorVerdict::Replaced => "replaced".to_owned(),
        DescriptorVerdict::Carried { .. } => "carried".to_owned(),
        DescriptorVerdict::Limit { limit, .. } => match &config.limits()[limit].allowance {
            Allowance::Limited { quota, .. } => quota.limit.to_string(),
            Allowance::Unlimited => panic!("an unlimited limit counts nothing"),
        },
    };
    verdicts.into_iter().map(word).collect::<Vec<_>>().join(" | ")
}

/// The key of the counter of a single descriptor.
#[track_caller]
pub(crate) fn counter(config: &EnvoyConfig, domain: &str, request: &str) -> String {
    match verdicts(config, domain, request).as_deref() {
        Some([DescriptorVerdict::Limit { key, .. } | DescriptorVerdict::Carried { key }]) => {
            key.as_str().to_owned()
        }
        other => panic!("{request} is not counted: {other:?}"),
    }
}
