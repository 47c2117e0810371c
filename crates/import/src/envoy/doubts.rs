//! Files that are valid and yet hardly what their author means.

use std::collections::HashSet;

use tollgate_document::{Problem, quote};

use crate::FileProblem;
use crate::envoy::EnvoyConfig;

impl EnvoyConfig {
    /// Everything doubtful, as warnings.
    #[must_use]
    pub fn doubts(&self) -> Vec<FileProblem> {
        let names: HashSet<&str> =
            self.limits.iter().filter_map(|limit| limit.name.as_deref()).collect();
        let mut doubts = Vec::new();
        for limit in &self.limits {
            for name in limit.replaces.iter().filter(|name| !names.contains(&***name)) {
                let message = format!("no limit has the name {}, so it replaces none", quote(name));
                let advice = "write the name of another rate_limit, or leave it out";
                let problem = Problem::new("rate_limit.replaces", message).with_advice(advice);
                let problem = problem.at(limit.position).into_warning();
                doubts.push(FileProblem { file: limit.file.to_string(), problem });
            }
        }
        doubts
    }
}
