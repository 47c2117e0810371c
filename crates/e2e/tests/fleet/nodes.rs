//! Nodes that share a store.

use std::env;

use tollgate_testbed::RedisCluster;

use tollgate_e2e::server::{Server, Setup};

/// Whether there is time for everything: all vectors, many windows, every fault.
pub(crate) fn is_soak() -> bool {
    env::var_os("TOLLGATE_SOAK_FLEET").is_some()
}

/// Starts so many nodes that count in one store.
pub(crate) fn start(count: usize, store: &str, rules: &str, settings: &str) -> Vec<Server> {
    let arguments = ["--store", store];
    let setup = Setup { rules: Some(rules), settings, arguments: &arguments, ..Setup::default() };
    (0..count).map(|_| Server::start(&setup)).collect()
}

pub(crate) fn cluster_url(cluster: &RedisCluster) -> String {
    let addresses: Vec<String> =
        cluster.nodes().iter().map(|node| node.address().to_string()).collect();
    format!("redis+cluster://{}", addresses.join(","))
}

/// A check of one client by one rule.
pub(crate) fn check_of(rule: &str, client: &str) -> String {
    format!(r#"{{"rule_id":"{rule}","key_type":"user","key_value":"{client}"}}"#)
}
