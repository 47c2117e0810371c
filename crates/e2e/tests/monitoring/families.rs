//! The metrics of the server: names, types and meanings from `/metrics`, labels from the table in docs/serve.md.

use std::collections::BTreeMap;
use std::fs;

use tollgate_e2e::program::root;
use tollgate_e2e::server::Server;

/// A metric with all its series.
#[derive(Debug)]
pub(crate) struct Family {
    /// As in queries, with `_total`.
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) help: String,
    pub(crate) labels: Vec<String>,
}

/// All metrics, in the order of `/metrics`.
pub(crate) fn families() -> Vec<Family> {
    let labels = documented_labels();
    let server = Server::with_rules("rules: []");
    let text = server.get("/metrics").text();
    let about = |line: &str, prefix: &str| {
        let (name, about) = line.strip_prefix(prefix)?.split_once(' ')?;
        Some((name.to_owned(), about.to_owned()))
    };
    let helps: BTreeMap<String, String> =
        text.lines().filter_map(|line| about(line, "# HELP ")).collect();
    let kinds = text.lines().filter_map(|line| about(line, "# TYPE "));
    kinds
        .map(|(name, kind)| Family {
            help: helps.get(&name).unwrap_or_else(|| panic!("no help of {name}")).clone(),
            labels: labels
                .get(&name)
                .unwrap_or_else(|| panic!("{name} is not in the table of docs/serve.md"))
                .clone(),
            kind,
            name,
        })
        .collect()
}

/// The labels of each metric: a row of the table begins with `name{label,label}`.
fn documented_labels() -> BTreeMap<String, Vec<String>> {
    let page = fs::read_to_string(root().join("docs/serve.md")).expect("the page");
    let names = page.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("| `")?.split_once('`')?;
        name.starts_with("tollgate_").then_some(name)
    });
    names
        .map(|name| {
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
            (name.to_owned(), labels.map(str::to_owned).collect())
        })
        .collect()
}
