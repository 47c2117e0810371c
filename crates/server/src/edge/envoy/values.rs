//! Metrics that name values of requests, where a file asks for them: `detailed_metric` and
//! `value_to_metric`. Clients choose the values, so their number is bounded.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_import::envoy::EnvoyConfig;

/// How many values of all limits are counted separately; the rest of each limit are counted together.
const MAX_VALUES: usize = 10_000;
/// How many values one limit may have, so that clients of one limit do not use up those of others.
const MAX_VALUES_PER_LIMIT: usize = 1_000;
/// The label of all further values.
const OTHERS: &str = "(others)";
/// How many bytes of a value are shown.
const MAX_VALUE_BYTES: usize = 200;

/// The counts of one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hits {
    pub(crate) within: u64,
    pub(crate) over: u64,
}

/// How often each value was within or over its limit.
#[derive(Debug, Default)]
pub(crate) struct Values(Mutex<ValueTable>);

#[derive(Debug, Default)]
struct ValueTable {
    limits: HashMap<Arc<str>, HashMap<String, Hits>>,
    /// How many values all limits have.
    len: usize,
}

impl ValueTable {
    fn hits(&mut self, limit: &Arc<str>, value: String) -> &mut Hits {
        let values = self.limits.entry(Arc::clone(limit)).or_default();
        let is_full = self.len >= MAX_VALUES || values.len() >= MAX_VALUES_PER_LIMIT;
        let is_new = !values.contains_key(&value);
        let value = if is_full && is_new { OTHERS.to_owned() } else { value };
        values.entry(value).or_insert_with(|| {
            self.len += 1;
            Hits::default()
        })
    }
}

impl Values {
    /// Counts a request, if its limit says so.
    pub(crate) fn count(
        &self,
        limit: usize,
        config: &EnvoyConfig,
        entries: &[(&str, &str)],
        is_over: bool,
    ) {
        let Some(limit) = config.limits().get(limit) else { return };
        let is_named = |step: &tollgate_import::envoy::LimitStep| step.value_to_metric;
        if !limit.detailed_metric && !limit.path.iter().any(is_named) {
            return;
        }
        let mut label = String::new();
        for (step, (key, value)) in limit.path.iter().zip(entries) {
            if !label.is_empty() {
                label.push('.');
            }
            label.push_str(key);
            // What shares a counter shares the label of its wildcard.
            let is_shown = (limit.detailed_metric || step.value_to_metric) && !step.share_threshold;
            if let Some(value) = is_shown.then_some(*value).or(step.value.as_deref()) {
                label.push('_');
                label.push_str(&value[..value.floor_char_boundary(MAX_VALUE_BYTES)]);
            }
        }
        let mut values = self.0.lock();
        let hits = values.hits(&limit.id, label);
        *(if is_over { &mut hits.over } else { &mut hits.within }) += 1;
    }

    /// The counts of all values, by limit and value.
    pub(crate) fn read(&self) -> Vec<((Arc<str>, String), Hits)> {
        let mut all = Vec::new();
        for (limit, values) in &self.0.lock().limits {
            all.extend(
                values.iter().map(|(value, hits)| ((Arc::clone(limit), value.clone()), *hits)),
            );
        }
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
domain: shop
descriptors:
  - key: user
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: tenant
    value_to_metric: true
    descriptors:
      - key: path
        rate_limit: {unit: minute, requests_per_unit: 5}
  - key: route
    value: /api/*
    share_threshold: true
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: silent
    rate_limit: {unit: minute, requests_per_unit: 5}
";

    fn count(values: &Values, entries: &[(&str, &str)], is_over: bool) {
        let config = EnvoyConfig::parse(&[("shop.yaml", FILE)]).expect("a valid file");
        let id =
            format!("shop.{}", entries.iter().map(|(key, _)| *key).collect::<Vec<_>>().join("."));
        let limit = config.limits().iter().position(|limit| *limit.id == *id);
        values.count(limit.unwrap_or_else(|| panic!("no {id}")), &config, entries, is_over);
    }

    #[test]
    fn values_are_named_where_a_file_says_so() {
        let values = Values::default();
        count(&values, &[("user", "7")], false);
        count(&values, &[("user", "7")], true);
        count(&values, &[("tenant", "acme"), ("path", "/secret")], false);
        count(&values, &[("silent", "7")], true);
        let told: Vec<(String, Hits)> =
            values.read().into_iter().map(|((_, value), hits)| (value, hits)).collect();
        let hits = |within, over| Hits { within, over };
        let expected =
            [("tenant_acme.path".to_owned(), hits(1, 0)), ("user_7".to_owned(), hits(1, 1))];
        assert_eq!(told, expected);
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let values = Values::default();
        let config = EnvoyConfig::parse(&[("shop.yaml", FILE)]).expect("a valid file");
        for number in 0..MAX_VALUES_PER_LIMIT + 500 {
            values.count(0, &config, &[("user", &number.to_string())], false);
        }
        let told = values.read();
        assert_eq!(told.len(), MAX_VALUES_PER_LIMIT + 1);
        let others = told.iter().find(|((_, value), _)| value == OTHERS).map(|(_, hits)| *hits);
        assert_eq!(others, Some(Hits { within: 500, over: 0 }));
        // Clients of one limit used to use up the values of all others.
        count(&values, &[("tenant", "acme"), ("path", "/")], true);
        assert!(values.read().iter().any(|((_, value), _)| value == "tenant_acme.path"));
    }

    /// Values that share one counter used to have a label each.
    #[test]
    fn values_that_share_a_counter_have_the_label_of_the_wildcard() {
        let values = Values::default();
        let config = EnvoyConfig::parse(&[("shop.yaml", FILE)]).expect("a valid file");
        let limit = config.limits().iter().position(|limit| &*limit.path[0].key == "route");
        for path in ["/api/a", "/api/b"] {
            values.count(limit.expect("the limit"), &config, &[("route", path)], false);
        }
        let labels: Vec<String> = values.read().into_iter().map(|((_, value), _)| value).collect();
        assert_eq!(labels, ["route_/api/*"]);
    }
}
