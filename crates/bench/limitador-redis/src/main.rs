//! limitador with counters in Redis: checks subjects until the time is up, or each subject once, and prints how many
//! checks it made.
//!
//! Arguments: URL, limits per subject, subjects, checks in flight, milliseconds (0: each subject once).

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use limitador::limit::{Limit, Namespace};
use limitador::storage::AsyncStorage;
use limitador::storage::redis::AsyncRedisStorage;
use limitador::{AsyncRateLimiter, AsyncRateLimiterBuilder};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const LIMIT: i64 = 50_000;
const DAY: u64 = 86_400;

fn main() -> Fallible<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, limits, subjects, in_flight, millis] = &arguments[..] else {
        return Err("expected: URL LIMITS SUBJECTS IN_FLIGHT MILLISECONDS".into());
    };
    let (limits, subjects) = (limits.parse()?, subjects.parse()?);
    let (in_flight, millis) = (in_flight.parse()?, millis.parse()?);
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    println!("{}", runtime.block_on(drive(url, limits, subjects, in_flight, millis))?);
    Ok(())
}

async fn drive(
    url: &str,
    limits: u64,
    subjects: usize,
    in_flight: usize,
    millis: u64,
) -> Fallible<u64> {
    let storage = AsyncRedisStorage::new(url).await.map_err(|error| error.to_string())?;
    let storage = AsyncStorage::with_counter_storage(Box::new(storage));
    let limiter = AsyncRateLimiterBuilder::new(storage).build();
    for number in 0..limits {
        // Limits differ by their windows.
        limiter.add_limit(Limit::new(
            "bench",
            LIMIT,
            DAY - number,
            Vec::<String>::new(),
            vec!["user_id"],
        ));
    }
    let (limiter, is_over) = (Arc::new(limiter), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    for task in 0..in_flight {
        let (limiter, is_over) = (Arc::clone(&limiter), Arc::clone(&is_over));
        tasks.spawn(async move {
            let mut checks = 0;
            if millis == 0 {
                for subject in (task..subjects).step_by(in_flight) {
                    check(&limiter, subject).await?;
                    checks += 1;
                }
                return Ok(checks);
            }
            let mut random = task as u64 + 1;
            while !is_over.load(Relaxed) {
                // An xorshift: any subject is as likely as any other.
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                check(&limiter, (random % subjects as u64) as usize).await?;
                checks += 1;
            }
            Fallible::Ok(checks)
        });
    }
    tokio::time::sleep(Duration::from_millis(millis)).await;
    is_over.store(true, Relaxed);
    let mut checks = 0;
    while let Some(made) = tasks.join_next().await {
        checks += made??;
    }
    Ok(checks)
}

async fn check(limiter: &AsyncRateLimiter, subject: usize) -> Fallible<()> {
    let subject = HashMap::from([("user_id".to_owned(), format!("u:{subject:014}"))]);
    let namespace = Namespace::from("bench");
    match limiter.check_rate_limited_and_update(&namespace, &subject, 1, false).await {
        Ok(result) if !result.limited => Ok(()),
        Ok(_) => Err("a check was refused".into()),
        Err(error) => Err(format!("{error:?}").into()),
    }
}
