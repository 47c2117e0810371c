//! The copy of the policy: arrives whole, is replaced only by a newer one or by one in place of a forged one, and needs
//! few rights.

use tollgate_store::{
    PolicyCopyError, PolicyPublication, RedisPolicyCopy, RemoteSettings, SealedPolicy,
};
use tollgate_testbed::{Redis, RedisCluster, Reply};

use crate::stand::{CHANNEL, cluster_url, heard, listening};

const KEY: &str = "ratelimit:policy:active";
/// All that the copy asks of a server, for a user that may do nothing else.
const RIGHTS: &str = "+eval +hdel +hget +hkeys +hset +hstrlen +publish";

fn connect(url: &str) -> RedisPolicyCopy {
    RedisPolicyCopy::connect(url, &RemoteSettings::default()).expect("a valid URL")
}

/// A copy with chunks that contain every byte.
fn policy(epoch: u64, number: u64, chunks: usize) -> SealedPolicy {
    let chunk = |place: usize| (0..=255).cycle().skip(place).take(100_000).collect();
    SealedPolicy {
        epoch,
        number,
        id: format!("{epoch:x}aa{number:x}"),
        header: format!("header of {epoch}-{number}").into_bytes(),
        chunks: (1..=chunks).map(chunk).collect(),
    }
}

async fn publish(copy: &RedisPolicyCopy, policy: &SealedPolicy) -> PolicyPublication {
    copy.publish(policy, None).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn read(copy: &RedisPolicyCopy) -> Option<SealedPolicy> {
    copy.read().await.unwrap_or_else(|error| panic!("{error}"))
}

/// Chunks of the copy and of publications that were not finished.
fn chunks(redis: &Redis) -> usize {
    let keys = redis.command(&["HKEYS", KEY]);
    keys.list().iter().filter(|key| key.text().contains(':')).count()
}

async fn check_round_trip(url: &str) {
    let (writer, reader) = (connect(url), connect(url));
    assert_eq!(read(&reader).await, None);
    for policy in [policy(1, 1, 3), policy(1, 2, 1), policy(2, 1, 5)] {
        assert_eq!(publish(&writer, &policy).await, PolicyPublication::Published);
        assert_eq!(read(&reader).await, Some(policy.clone()));
        let head = reader.head().await.expect("a response").expect("a head");
        assert_eq!(
            (head.revision, head.header),
            (Some((policy.epoch, policy.number)), policy.header)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_arrives_as_it_was_published() {
    let redis = Redis::start();
    check_round_trip(&redis.url()).await;
    assert_eq!(chunks(&redis), 5, "those of the last copy alone");
    check_round_trip(&cluster_url(&RedisCluster::start(3, 0))).await;
    // With a prefix it has another key.
    let other = connect(&format!("{}?prefix=app:", redis.url()));
    assert_eq!(read(&other).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_does_not_replace_a_newer_one() {
    let redis = Redis::start();
    let copy = connect(&redis.url());
    let newest = policy(10, 100, 2);
    publish(&copy, &newest).await;
    for (epoch, number) in [(10, 100), (10, 99), (10, 9), (9, 1_000), (1, 1), (0, 0)] {
        let older = SealedPolicy { id: "ff".to_owned(), ..policy(epoch, number, 1) };
        assert_eq!(publish(&copy, &older).await, PolicyPublication::NotNewer, "{epoch}-{number}");
        assert_eq!(read(&copy).await.as_ref(), Some(&newest));
    }
    // A revision from the future is none.
    redis.command(&["HSET", KEY, "#revision", "99999999999999999999-1"]);
    assert_eq!(publish(&copy, &policy(10, 101, 1)).await, PolicyPublication::Published);
}

/// The caller found that a header is not genuine. It is replaced, unless it was replaced meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_not_genuine_is_replaced_whatever_it_claims() {
    let redis = Redis::start();
    let copy = connect(&redis.url());
    let (forged, genuine) = (policy(10, 100, 2), policy(10, 50, 3));
    publish(&copy, &forged).await;
    assert_eq!(publish(&copy, &genuine).await, PolicyPublication::NotNewer);
    let replaced = copy.publish(&genuine, Some(b"another header")).await.expect("a response");
    assert_eq!(replaced, PolicyPublication::NotNewer);
    let replaced = copy.publish(&genuine, Some(&forged.header)).await.expect("a response");
    assert_eq!(replaced, PolicyPublication::Published);
    assert_eq!(read(&copy).await, Some(genuine));
    assert_eq!(chunks(&redis), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn publications_at_the_same_time_leave_one_whole_copy() {
    let redis = Redis::start();
    for round in 1..=10 {
        let publishing = (1..=4_u64).map(|node| {
            let (url, policy) = (redis.url(), policy(round, node, 4));
            tokio::spawn(async move { publish(&connect(&url), &policy).await })
        });
        let publishing: Vec<_> = publishing.collect();
        let mut published = 0;
        for publishing in publishing {
            let outcome = publishing.await.expect("no panic");
            published += usize::from(outcome == PolicyPublication::Published);
        }
        assert!(published >= 1, "the last to begin is not overtaken");
        let found = read(&connect(&redis.url())).await.expect("a copy");
        assert_eq!(found, policy(round, found.number, 4), "round {round}");
        assert_eq!(found.epoch, round);
    }
    publish(&connect(&redis.url()), &policy(11, 1, 2)).await;
    assert_eq!(chunks(&redis), 2, "nothing is left behind");
}

/// What others did to the copy, and why it is not read.
async fn check_broken(act: &[&[&str]], expected: &str) {
    let redis = Redis::start();
    let copy = connect(&redis.url());
    publish(&copy, &policy(1, 1, 2)).await;
    for command in act {
        let reply = redis.command(command);
        assert!(!matches!(reply, Reply::Error(_)), "{command:?}: {reply:?}");
    }
    let error = copy.read().await.expect_err("a copy that is not whole");
    assert!(matches!(&error, PolicyCopyError::Broken(_)), "{act:?}: {error}");
    let told = error.to_string();
    assert!(told.contains(expected) && told.contains(KEY), "{act:?}: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_not_whole_is_not_read() {
    check_broken(&[&["HDEL", KEY, "1aa1:2"]], "chunk 2 of 2 is missing").await;
    check_broken(&[&["HDEL", KEY, "#header"]], "#header is missing").await;
    check_broken(&[&["HSET", KEY, "#revision", "soon"]], "#revision is missing or broken").await;
    check_broken(&[&["HSET", KEY, "#chunks", "0"]], "#chunks is missing or broken").await;
    check_broken(&[&["HSET", KEY, "#chunks", "257"]], "#chunks is missing or broken").await;
    let long = "x".repeat(SealedPolicy::CHUNK_BYTES + 1);
    check_broken(&[&["HSET", KEY, "1aa1:1", &long]], "too long").await;
    check_broken(&[&["HSET", KEY, "#header", &long]], "too long").await;
    check_broken(&[&["DEL", KEY], &["SET", KEY, "x"]], "not a hash").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_bounded() {
    let redis = Redis::start();
    let copy = connect(&redis.url());
    let mut large = policy(1, 1, 1);
    large.chunks[0] = vec![0; SealedPolicy::CHUNK_BYTES + 1];
    let many = SealedPolicy { chunks: vec![vec![1]; 257], ..policy(1, 1, 1) };
    for policy in [large, many] {
        let error = copy.publish(&policy, None).await.expect_err("too large");
        assert!(error.to_string().contains("67108864 are the most"), "{error}");
    }
    assert_eq!(read(&copy).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_needs_no_more_rights_than_these_for_the_copy() {
    let redis = Redis::builder()
        .user("node", &format!("on >secret ~{KEY} &{CHANNEL} {RIGHTS}"))
        .user("mute", &format!("on >secret ~{KEY} &other {RIGHTS}"))
        .start();
    let url = |who: &str| format!("redis://{who}:secret@{}", redis.address());
    let copy = connect(&url("node"));
    assert_eq!(publish(&copy, &policy(1, 1, 2)).await, PolicyPublication::Published);
    let error = connect(&url("mute")).publish(&policy(1, 2, 2), None).await.expect_err("refused");
    assert!(matches!(&error, PolicyCopyError::Redis(_)) && !error.to_string().contains("secret"));
    assert_eq!(read(&copy).await, Some(policy(1, 1, 2)), "a missing permission changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_hear_of_a_new_copy() {
    let redis = Redis::start();
    let (_rule_cache, mut changes) = listening(&redis.url()).await;
    changes.mark_unchanged();
    publish(&connect(&redis.url()), &policy(1, 1, 1)).await;
    heard(&mut changes).await;
}
