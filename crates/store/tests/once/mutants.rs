//! The script, broken on purpose where it deals with copies: the tests of copies catch each mutant.

use std::sync::Arc;

use tollgate_store::redis::RedisStore;
use tollgate_testbed::Redis;

use crate::promises::all;
use crate::{patient, refunds, together};

const SCRIPT: &str = RedisStore::SCRIPT;

/// Name, what stands in the script, and what the mutant has instead.
const MUTANTS: &[(&str, &str, &str)] = &[
    ("nothing is kept", "call('SET', key, cmsgpack.pack(once),", "call('GETRANGE', key, 0, 1) -- "),
    ("records are not looked for", "local found = read_string(key, MAX_ONCE)", "local found"),
    ("any body will do", "if once.body ~= body then", "if false then"),
    (
        "refusals are kept",
        "      if passed then\n        once =",
        "      if true then\n        once =",
    ),
    ("copies are judged now", "pack('<I7', tonumber(once.at))", "pack('<I7', now)"),
    ("copies keep their own note", "tonumber(once.at)) .. once.note", "tonumber(once.at)) .. note"),
    ("copies show figures of now", "if not repeat_result(c, once.said[name]) then", "if true then"),
    ("new limits are charged", "        c.cost = 0\n        settle(", "        settle("),
    ("a plan has no logs", "plan.logs + (c.limit.algorithm == LOG and 1 or 0)", "plan.logs + 0"),
    ("refunds are made again", "if found and found ~= content then", "if false then"),
    ("a refund is not marked", "call('SET', key, content,", "call('GETRANGE', key, 0, 1) -- "),
    ("what has ended is refunded", "local left = refunds[i].ends_at - now\n", "local left = 1\n"),
];

/// Whether the promises are kept by two nodes with that script.
async fn is_sound(server: &Arc<Redis>, number: usize, script: &str) -> bool {
    let url = format!("{}?prefix=mutant{number}:", server.url());
    let node = || RedisStore::connect_with_script(&url, patient(), script).expect("a valid URL");
    if tokio::spawn(all([node(), node()], true)).await.is_err() {
        return false;
    }
    let url = format!("{url}refunds:");
    let node = || RedisStore::connect_with_script(&url, patient(), script).expect("a valid URL");
    if tokio::spawn(refunds::all([node(), node()])).await.is_err() {
        return false;
    }
    let (server, node) = (Arc::clone(server), Arc::new(node()));
    tokio::spawn(async move { Box::pin(together::check(&server, node)).await }).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mutant_is_caught() {
    let server = Arc::new(Redis::start());
    assert!(is_sound(&server, MUTANTS.len(), SCRIPT).await);
    let mut survivors = Vec::new();
    for (number, (what, before, after)) in MUTANTS.iter().enumerate() {
        assert_eq!(SCRIPT.matches(before).count(), 1, "{what}: {before:?} is not there once");
        if is_sound(&server, number, &SCRIPT.replace(before, after)).await {
            survivors.push(what);
        }
    }
    assert!(survivors.is_empty(), "not caught: {survivors:#?}");
}
