//! The script, broken on purpose where it deals with copies: the promises find it out.

use tollgate_store::redis::RedisStore;
use tollgate_testbed::Redis;

use crate::patient;
use crate::promises::all;

const SCRIPT: &str = include_str!("../../src/redis/settle.lua");

/// Name, what stands in the script, and what the mutant has instead.
const MUTANTS: &[(&str, &str, &str)] = &[
    ("nothing is kept", "if once and once.record and not failure then", "if false then"),
    ("records are not looked for", "local found = pcall_redis('GET', once.key)", "local found"),
    ("any body will do", "if record.body ~= once.body then", "if false then"),
    ("refusals are kept", "  if passed then\n    record =", "  if true then\n    record ="),
    ("copies are judged now", "'=' .. record.at ..", "'=' .. format('%.0f', now) .."),
    ("copies keep their own note", "':' .. record.note", "':' .. once.note"),
    (
        "copies in one call are strangers",
        "records[once.key], firsts[once.key] = record, charges",
        "firsts[once.key] = charges",
    ),
    ("copies show figures of now", "c.said = record.said[c.limit.tag .. c.key]", "c.said = nil"),
    ("new limits are charged", "        c.cost = 0\n        settle_plain", "        settle_plain"),
    (
        "states are told by name alone",
        "record.said[c.limit.tag .. c.key] = c.said",
        "for _, t in ipairs(TAGS) do record.said[t .. c.key] = c.said end",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_mutant_is_caught() {
    let server = Redis::start();
    let mut survivors = Vec::new();
    for (number, (what, before, after)) in MUTANTS.iter().enumerate() {
        assert_eq!(SCRIPT.matches(before).count(), 1, "{what}: {before:?} is not there once");
        let script = SCRIPT.replace(before, after);
        let url = format!("{}?prefix=mutant{number}:", server.url());
        let node = || RedisStore::connect_with_script(&url, patient(), &script);
        let nodes = [(); 2].map(|()| node().expect("a sound URL"));
        if tokio::spawn(all(nodes, true)).await.is_ok() {
            survivors.push(what);
        }
    }
    assert!(survivors.is_empty(), "not caught: {survivors:#?}");
}
