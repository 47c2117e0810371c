//! Records in Redis that this store did not write: they are no records, or say no more than a record
//! can, and are no failure of the server.

use tollgate_core::Algorithm;
use tollgate_store::{BreakerState, OpOutcome, RemoteSettings};
use tollgate_testbed::Redis;

use crate::{call, first, key, limit, one, patient, settle};

/// What was done to a record, as a script with the record in `r`; without one, the value itself.
enum Forgery {
    Script(&'static str),
    Value(&'static str),
}

/// Settles a request, changes its record, and settles a copy.
async fn copy_of(redis: &Redis, forgery: &Forgery) -> OpOutcome {
    let settings = RemoteSettings { failures: 1, ..patient() };
    let store = crate::RedisStore::connect(&redis.url(), settings).expect("a valid URL");
    redis.command(&["FLUSHALL"]);
    let (ten, log) = (limit(Algorithm::Gcra, 10), limit(Algorithm::SlidingWindowLog, 10));
    let charges = [one(key("a", "x"), &ten), one(key("b", "x"), &log)];
    let once = call("key", 1, "d00000001-a1");
    first(settle(&store, &charges, &once).await);
    let keys = redis.command(&["KEYS", "*once*"]);
    let place = keys.list()[0].text();
    let change = match forgery {
        Forgery::Script(change) => format!(
            "local r = cmsgpack.unpack(redis.call('GET', KEYS[1])); {change}
             redis.call('SET', KEYS[1], cmsgpack.pack(r))"
        ),
        Forgery::Value(value) => format!("redis.call('SET', KEYS[1], {value})"),
    };
    let answer = redis.command(&["EVAL", &change, "1", place]);
    assert!(!format!("{answer:?}").contains("ERR"), "{answer:?}");
    let settled = settle(&store, &charges, &once).await;
    let status = &store.status()[0];
    assert_eq!((status.breaker, status.failures), (BreakerState::Closed, 0), "{change}");
    settled
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_is_none() {
    check_unreadable(&Redis::start()).await;
}

pub(crate) async fn check_unreadable(redis: &Redis) {
    for forgery in [
        Forgery::Value("'garbage'"),
        Forgery::Value("string.rep('\\145', 200000)"),
        Forgery::Value("string.rep('x', 64 * 1024 * 1024)"),
        Forgery::Value("cmsgpack.pack({})"),
        Forgery::Value("cmsgpack.pack(7)"),
        Forgery::Script("r.body = 7"),
        Forgery::Script("r.note = {}"),
        Forgery::Script("r.said = 'x'"),
        Forgery::Script("r.at = 'x'"),
        Forgery::Script("r.at = string.rep('9', 30)"),
    ] {
        let settlement = first(copy_of(redis, &forgery).await);
        let left = settlement.results.iter().map(|line| line.report.remaining);
        assert_eq!(left.collect::<Vec<_>>(), [8, 8]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_result_in_a_record_is_read_from_the_counter() {
    check_invalid_results(&Redis::start()).await;
}

pub(crate) async fn check_invalid_results(redis: &Redis) {
    let all = |text: &str| format!("for k in pairs(r.said) do r.said[k] = {text} end");
    for text in ["'x'", "'11garbage'", "7", "string.rep('1', 1000)", "'11' .. string.rep('9', 30)"]
    {
        let settled = copy_of(redis, &Forgery::Script(all(text).leak())).await;
        let OpOutcome::Replayed { settlement, note } = settled else {
            panic!("{text}: {settled:?}")
        };
        let left = settlement.results.iter().map(|line| line.report.remaining);
        assert_eq!(left.collect::<Vec<_>>(), [9, 9], "{text}");
        assert_eq!(note, "d00000001-a1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_that_cannot_be_read_fails_nothing() {
    let redis = Redis::start();
    for (change, expected) in [
        (r"r.note = '\255\254'", "\u{fffd}\u{fffd}"),
        (r"r.note = 'x\ny'", ""),
        (r#"r.note = 'x","allowed":false'"#, r#"x","allowed":false"#),
    ] {
        let settled = copy_of(&redis, &Forgery::Script(change)).await;
        let OpOutcome::Replayed { note, .. } = settled else { panic!("{change}: {settled:?}") };
        assert_eq!(note, expected, "{change}");
    }
}
