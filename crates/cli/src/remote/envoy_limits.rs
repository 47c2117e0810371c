//! `tollgate rules list --envoy`: the limits that a server has in force from files of envoyproxy/ratelimit.

use serde::Deserialize;

use super::client::Remote;
use super::list::FullList;
use crate::failure::Failure;
use crate::table::{Column, table};
use crate::terminal::{count, printable, quota};

const LIMITS: &str = "/api/v1/envoy/limits";

/// A limit in a line.
#[derive(Debug, Deserialize)]
struct LimitRow {
    rule_id: String,
    domain: String,
    descriptors: Vec<Descriptor>,
    requests_per_unit: Option<u64>,
    unit: Option<String>,
    algorithm: Option<String>,
    shadow_mode: bool,
    quota_mode: bool,
    file: String,
    line: u32,
}

#[derive(Debug, Deserialize)]
struct Descriptor {
    key: String,
    value: Option<String>,
}

/// How the last load of the files ended.
#[derive(Debug, Deserialize)]
struct Load {
    loaded_at: String,
    tried_at: String,
    error: Option<String>,
}

/// All limits of a server, as a table or as the server sent them.
pub(super) fn list(remote: &Remote, as_json: bool) -> Result<String, Failure> {
    let list = FullList::read(remote, LIMITS, "limits")?;
    if as_json {
        return Ok(list.text());
    }
    let directory = list.field::<String>("directory")?;
    Ok(render(&list.rows()?, directory.as_deref(), list.field("load")?.as_ref()))
}

/// How many limits a server has, for a list of rules that is empty. A server that does not say has none to show.
pub(super) fn hint(remote: &Remote) -> Option<String> {
    #[derive(Deserialize)]
    struct Limits {
        limits: Vec<serde::de::IgnoredAny>,
    }
    let found = remote.get::<Limits>(&format!("{LIMITS}?limit=1")).ok()?;
    let has_limits = !found.value.limits.is_empty();
    has_limits.then(|| "The limits of Envoy's files: tollgate rules list --envoy\n".to_owned())
}

fn render(limits: &[LimitRow], directory: Option<&str>, load: Option<&Load>) -> String {
    let (Some(directory), Some(load)) = (directory, load) else {
        return "the server reads no files of envoyproxy/ratelimit (serve --envoy-config)\n"
            .to_owned();
    };
    let columns = [
        Column::Text("rule"),
        Column::Text("domain"),
        Column::Text("descriptors"),
        Column::Text("limit"),
        Column::Text("algorithm"),
        Column::Text("mode"),
        Column::Text("file"),
    ];
    let rows: Vec<_> = limits.iter().map(row).collect();
    let mut text =
        if rows.is_empty() { String::new() } else { format!("{}\n", table(columns, &rows)) };
    let limits = count(limits.len() as u64, "limit");
    let (directory, loaded_at) = (printable(directory), printable(&load.loaded_at));
    text += &format!("{limits} from {directory}, loaded at {loaded_at}\n");
    if let Some(error) = &load.error {
        let tried_at = printable(&load.tried_at);
        text += &format!("the last load failed at {tried_at}, and changed nothing:\n");
        for line in error.lines() {
            text += &format!("  {}\n", printable(line));
        }
    }
    text
}

fn row(limit: &LimitRow) -> [String; 7] {
    let descriptor = |Descriptor { key, value }: &Descriptor| match value {
        Some(value) => format!("{key}={value}"),
        None => key.clone(),
    };
    let descriptors: Vec<String> = limit.descriptors.iter().map(descriptor).collect();
    let allowed = match (limit.requests_per_unit, &limit.unit) {
        (Some(requests), Some(unit)) => quota(requests, unit, requests),
        _ => "unlimited".to_owned(),
    };
    let mode = match (limit.shadow_mode, limit.quota_mode) {
        (false, false) => "enforced",
        (true, _) => "shadow",
        (false, true) => "quota",
    };
    [
        limit.rule_id.clone(),
        limit.domain.clone(),
        descriptors.join(", "),
        allowed,
        limit.algorithm.clone().unwrap_or_default(),
        mode.to_owned(),
        format!("{}:{}", limit.file, limit.line),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: &str = r#"[
        {"rule_id":"shop.tenant_acme","domain":"shop","descriptors":[{"key":"tenant","value":"acme"}],
         "requests_per_unit":1000,"unit":"minute","algorithm":"fixed_window","unlimited":false,
         "shadow_mode":true,"quota_mode":false,"file":"limits/shop.yaml","line":5},
        {"rule_id":"shop.a.b","domain":"shop","descriptors":[{"key":"a","value":"\u001b"},{"key":"b"}],
         "unlimited":true,"shadow_mode":false,"quota_mode":true,"file":"limits/shop.yaml","line":9}]"#;

    #[test]
    fn a_limit_is_a_line_and_a_failed_load_is_shown() {
        let limits: Vec<LimitRow> = serde_json::from_str(LIMIT).expect("limits");
        let mut load = Load {
            loaded_at: "2026-11-15T10:00:00Z".to_owned(),
            tried_at: "2026-11-15T11:00:00Z".to_owned(),
            error: None,
        };
        let expected = " rule              domain  descriptors  limit           algorithm     mode    file
 shop.tenant_acme  shop    tenant=acme  1,000 / minute  fixed_window  shadow  limits/shop.yaml:5
 shop.a.b          shop    a=\u{fffd}, b       unlimited                     quota   limits/shop.yaml:9

2 limits from limits, loaded at 2026-11-15T10:00:00Z
";
        assert_eq!(render(&limits, Some("limits"), Some(&load)), expected);
        load.error = Some("limits has problems:\nshop.yaml: line 1".to_owned());
        let failed = "the last load failed at 2026-11-15T11:00:00Z, and changed nothing:
  limits has problems:
  shop.yaml: line 1
";
        assert_eq!(render(&limits, Some("limits"), Some(&load)), format!("{expected}{failed}"));
        assert!(render(&[], None, None).starts_with("the server reads no files"));
    }
}
