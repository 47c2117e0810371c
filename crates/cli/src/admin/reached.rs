//! Which nodes figures are of, and which are missing.

use serde::Deserialize;

use crate::terminal::{count, printable};

/// What a server says of the nodes that figures are of. Earlier versions leave fields out.
#[derive(Deserialize)]
pub(super) struct ReachedNodes {
    #[serde(default)]
    nodes: Option<u64>,
    #[serde(default)]
    silent_nodes: Vec<String>,
    #[serde(default)]
    others_unreachable_since: Option<String>,
}

impl ReachedNodes {
    /// How many nodes the figures are of.
    pub(super) fn count(&self) -> Option<String> {
        self.nodes.map(|nodes| count(nodes, "node"))
    }

    /// What is missing, a line each.
    pub(super) fn missing(&self) -> String {
        let mut lines = String::new();
        if let Some(since) = &self.others_unreachable_since {
            let since = printable(since);
            lines += &format!(
                "other nodes cannot be reached since {since}: these figures are of one node only\n"
            );
        }
        if !self.silent_nodes.is_empty() {
            let names: Vec<String> = self.silent_nodes.iter().map(|it| printable(it)).collect();
            let silent = count(names.len() as u64, "silent node");
            lines += &format!("without {silent}: {}\n", names.join(", "));
        }
        lines
    }
}
