//! Sentinels.

use tollgate_testbed::{Sentinels, until};

use crate::{is_gone, text};

#[test]
fn a_replica_takes_the_place_of_a_lost_master() {
    let sentinels = Sentinels::start(3, "mymaster", 2);
    let url = sentinels.url();
    assert!(url.starts_with("redis+sentinel://127.0.0.1:"), "{url}");
    assert!(url.ends_with("/mymaster"), "{url}");
    assert_eq!(url.matches(',').count(), 2, "{url}");

    let lost = sentinels.master_address();
    assert_eq!(lost, sentinels.servers()[0].address());
    assert_eq!(sentinels.master().command(&["SET", "name", "value"]), text("OK"));
    let replicas = sentinels.master().command(&["WAIT", "2", "5000"]);
    assert_eq!(replicas.integer(), 2, "both have it");

    sentinels.kill_master();
    until("another master", || (sentinels.master_address() != lost).then_some(()));
    assert_eq!(sentinels.master().command(&["GET", "name"]), text("value"));
    assert_eq!(sentinels.master().info("replication")["role"], "master");

    let ids = sentinels.process_ids();
    assert_eq!(ids.len(), 3);
    drop(sentinels);
    assert!(ids.into_iter().all(is_gone));
}
