//! The script, broken on purpose: whatever is wrong with it, the traces that it has to agree on find
//! it. What they cannot see, because a trace has its own clock, is for how long keys are kept; those
//! mutants are caught by looking at that.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::test_runner::Config;
use tollgate_core::Algorithm;
use tollgate_store::redis::RedisStore;
use tollgate_testbed::{Redis, Reply};

use crate::agreement::{REACH, SCRIPT, disagree};
use crate::draw::config;
use crate::stand::{LONG, NO_MOMENT, key, limit, one, patient};
use tollgate_store::Store as _;

/// Traces that a mutant may survive at most, so that chance does not decide.
const CASES: u32 = 400;

/// The script with one thing changed, which has to be there once.
fn mutate(what: &str, before: &str, after: &str) -> String {
    assert_eq!(SCRIPT.matches(before).count(), 1, "{what}: {before:?} is not there once");
    SCRIPT.replace(before, after)
}

/// Name, what stands in the script, and what the mutant has instead.
const MUTANTS: &[(&str, &str, &str)] = &[
    ("a large proportion loses its lowest bits", "for _ = 1, 6 do", "for _ = 1, 5 do"),
    (
        "a large proportion is a quotient of doubles",
        "if product < 4503599627370496 then",
        "if product < 1e300 then",
    ),
    (
        "what is equal counts as more",
        "(whole == other_whole and rest > other_rest)",
        "(whole == other_whole and rest >= other_rest)",
    ),
    (
        "a debt drains without the fraction",
        "local gone, gone_rest = proportion(passed - windows * l.window, c.rate, l.window)",
        "local gone, gone_rest = proportion(passed - windows * l.window, c.rate, l.window), 0",
    ),
    (
        "no unit is borrowed for a fraction",
        "        whole, rest = whole - 1, rest + l.window\n      end\n    else",
        "        rest = rest + l.window\n      end\n    else",
    ),
    ("whole windows do not drain", "gone = gone + windows * c.rate", "gone = gone + 0"),
    ("a clock ahead is believed by buckets", "at - now > l.believed", "false"),
    (
        "a clock ahead is believed by windows",
        "c.mode and at - now > 2 * l.window then\n    at,",
        "false then\n    at,",
    ),
    ("a clock ahead is believed by logs", "newest_at - now > 2 * l.window", "false"),
    (
        "a refund goes to the window before",
        "elseif charged == index - 1 then\n    c.previous = c.previous > c.cost and c.previous - c.cost or 0",
        "else\n    c.current = c.current > c.cost and c.current - c.cost or 0",
    ),
    ("a refund goes to any entry of a log", "if not tied or moment == tied then", "if true then"),
    ("a log keeps what is out of view", "elseif c.first > 1 then", "elseif false then"),
    (
        "a log merges by the second",
        "floor(newest / 1000) == floor(c.at / 1000)",
        "floor(newest / 1000000) == floor(c.at / 1000000)",
    ),
    ("a log never merges", "floor(newest / 1000) == floor(c.at / 1000)", "newest == c.at"),
    (
        "a debit has no cap",
        "l.kernel.take(c, c.mode == DEBIT and l.most or 9007199254740991)",
        "l.kernel.take(c, 9007199254740991)",
    ),
    (
        "a debit needs the request to pass",
        "(c.mode == DEBIT or (passed and c.fits))\n        if is_taken",
        "(passed and c.fits)\n        if is_taken",
    ),
    (
        "a shadow charge is taken from a refused request",
        "(c.mode == DEBIT or (passed and c.fits))\n        if is_taken",
        "(c.mode == DEBIT or ((passed or c.mode == SHADOW) and c.fits))\n        if is_taken",
    ),
    ("a shadow charge refuses", "c.mode == ENFORCE then", "c.mode ~= DEBIT then"),
    (
        "a charge is taken although another refused",
        "(c.mode == DEBIT or (passed and c.fits))\n        if is_taken",
        "(c.mode == DEBIT or c.fits)\n        if is_taken",
    ),
    ("the previous window is not weighted", "used = used + in_view", "used = used + c.previous"),
    (
        "the previous window is rounded down",
        "    if rest > 0 then\n      used = used + 1\n    end\n",
        "",
    ),
    ("the previous window is forgotten", "l.sliding and current or 0", "0"),
    (
        "a raised limit keeps the fraction of another rate",
        "    if l.limit > limit then\n      if rest > 0 then\n        whole, rest = whole + 1, 0\n      end\n    else",
        "    if l.limit > limit then\n      rest = rest\n    else",
    ),
    ("a lowered limit drains at once at its rate", "      c.rate = limit\n", ""),
    (
        "beside a debt of another rate fractions count",
        "  if c.rate ~= l.limit then\n    rest = 0\n  end\n  return",
        "  return",
    ),
    ("a queue has no longest wait", "if l.delayed >= 0 and exceeds", "if false and exceeds"),
    ("a refund leaves a debt below zero", "if c.whole < c.cost then", "if false then"),
    (
        "numbers are written as Lua likes",
        "format('c:%.0f:%.0f:%.0f:%.0f', l.window, c.at, c.current, c.previous)\n  else\n    c.text = format('f",
        "'c:' .. l.window .. ':' .. c.at .. ':' .. c.current .. ':' .. c.previous\n  else\n    c.text = format('f",
    ),
    (
        "a counter met again in a call is as it was before",
        "texts[c.key], lives[c.key] = c.text, format('%.0f', ms)",
        "lives[c.key] = format('%.0f', ms)",
    ),
    (
        "a text that waits is lost on a log",
        "if c.limit.is_log and lives[c.key] then",
        "if false then",
    ),
    (
        "a state of another window counts",
        "if tag ~= l.tag or tonumber(window) ~= l.window then",
        "if tag ~= l.tag then",
    ),
    (
        "a state of another algorithm counts",
        "if tag ~= l.tag or tonumber(length) ~= l.window then",
        "if tonumber(length) ~= l.window then",
    ),
    (
        "what is refused is told of the wrong entry",
        "retry = leaves(c, l.room - c.cost)",
        "retry = leaves(c, l.room)",
    ),
    (
        "a window starts when it is first used",
        "local since_start = at - floor(at / l.window) * l.window",
        "local since_start = 0",
    ),
];

/// Whether the traces find out.
fn is_caught(redis: &Redis, script: &str) -> bool {
    redis.command(&["FLUSHALL"]);
    // Which trace shows it best does not matter.
    let config = Config { max_shrink_iters: 0, ..config(CASES) };
    let t0 = std::time::Instant::now();
    let found = catch_unwind(AssertUnwindSafe(|| disagree(config, REACH, &redis.url(), script)));
    let r = !matches!(found, Ok(Ok(())));
    eprintln!("{r} {:?}", t0.elapsed());
    r
}

#[test]
fn every_mutant_is_caught() {
    let redis = Redis::start();
    let survivors: Vec<&str> = MUTANTS
        .iter()
        .filter(|(what, before, after)| {
            eprint!("{what} ");
            !is_caught(&redis, &mutate(what, before, after))
        })
        .map(|(what, ..)| *what)
        .collect();
    assert!(survivors.is_empty(), "not caught: {survivors:#?}");
}
