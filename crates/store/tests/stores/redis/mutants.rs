//! The script, broken on purpose: whatever is wrong with it, the traces that it has to agree on find
//! it. What they cannot see, because a trace has its own clock, is for how long keys are kept; those
//! mutants are caught by looking at that.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::test_runner::{Config, RngSeed};
use tollgate_core::MAX_WINDOW;
use tollgate_testbed::Redis;

use crate::redis::agreement::{SCRIPT, disagree};
use crate::redis::draw::config;
use crate::redis::lifetimes::lifetimes_differ;

/// Traces that a mutant may survive; all but one are caught within a tenth of that.
const MAX_TRACES: u32 = 1_500;
const SEED: u64 = 4;

/// What is wrong with it, what stands in the script, and what the mutant has instead.
type Mutant = (&'static str, &'static str, &'static str);

fn mutate((what, before, after): &Mutant) -> String {
    assert_eq!(SCRIPT.matches(before).count(), 1, "{what}: {before:?} is not there once");
    SCRIPT.replace(before, after)
}

const MUTANTS: &[Mutant] = &[
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
    (
        "a clock ahead is believed by buckets",
        "at - now > l.believed then\n    at, c.healed = now, true\n    text",
        "false then\n    at, c.healed = now, true\n    text",
    ),
    (
        "a clock ahead is believed by windows",
        "at - now > l.believed then\n    at, c.healed = now, true\n    if",
        "false then\n    at, c.healed = now, true\n    if",
    ),
    ("a clock ahead is believed by logs", "newest_at - now > l.believed", "false"),
    (
        "a refund goes to the window before",
        "elseif charged == index - 1 then\n    c.previous = c.previous > c.cost and c.previous - c.cost or 0",
        "else\n    c.current = c.current > c.cost and c.current - c.cost or 0",
    ),
    (
        "a refund goes to any entry of a log",
        "if not tied or moment - tied <= c.slack then",
        "if true then",
    ),
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
    (
        "a refund rewrites a debt under the limit of its charge",
        "c.whole, c.rest, c.rate, c.at = whole, rest, limit, at\n    return",
        "c.whole, c.rest, c.rate, c.at = whole, rest, l.limit, at\n    return",
    ),
    ("a refund brings a debt to the time of the refund", "if not c.mode then", "if false then"),
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
        "if tag ~= l.tag or tonumber(window) ~= l.window then",
        "if tonumber(window) ~= l.window then",
    ),
    (
        "a count of another window counts",
        "if tonumber(length) ~= l.window then\n    return nil",
        "if not length then\n    return nil",
    ),
    (
        "a refusal reports the wait for the wrong entry",
        "retry = leaves(c, l.room - c.cost)",
        "retry = leaves(c, l.room)",
    ),
    (
        "a window starts when it is first used",
        "local since_start = at - floor(at / l.window) * l.window",
        "local since_start = 0",
    ),
    ("a window of the calendar never ends", "if at < l.starts then", "if false then"),
    ("a window of the calendar ends at any time", "if at < l.starts then", "if true then"),
    (
        "another calendar counts on",
        "tonumber(length) ~= l.window or tonumber(id) ~= l.calendar",
        "tonumber(length) ~= l.window",
    ),
    (
        "a refund goes to another window of the calendar",
        "(c.charged_from <= c.at and c.at < c.charged_to)",
        "true",
    ),
    (
        "a clock ahead is believed by windows of the calendar",
        "at - now > l.believed then\n    c.at, c.healed = now, true",
        "false then\n    c.at, c.healed = now, true",
    ),
];

/// Mutants of how long keys are kept, as above.
const MUTANTS_OF_LIFE: &[Mutant] = &[
    ("a log is kept for ever", "    call('PEXPIRE', c.key, format('%.0f', ms))\n", ""),
    (
        "a log is kept for half a window",
        "  return c.limit.window\n",
        "  return c.limit.window / 2\n",
    ),
    (
        "a previous window is not kept",
        "return c.limit.sliding and left + length or left",
        "return left",
    ),
    (
        "a window is kept for its length",
        "return c.limit.sliding and left + length or left",
        "return length",
    ),
    (
        "a debt is kept for a window",
        "return (c.whole * c.limit.window + c.rest) / c.rate",
        "return c.limit.window",
    ),
    ("nothing is kept beyond its use", "ceil(life / 1000) + extra", "floor(life / 1000) + 1"),
    ("all is kept for an hour more", "ceil(life / 1000) + extra", "ceil(life / 1000) + 3600000"),
];

/// The names of mutants that no trace catches.
fn check(mutants: &[Mutant], agrees: impl Fn(Config, &str) -> bool) {
    // The same traces every time; which of them shows it best does not matter.
    let config =
        Config { max_shrink_iters: 0, rng_seed: RngSeed::Fixed(SEED), ..config(MAX_TRACES) };
    let survivors: Vec<&str> = mutants
        .iter()
        .filter(|mutant| agrees(config.clone(), &mutate(mutant)))
        .map(|(what, ..)| *what)
        .collect();
    assert!(survivors.is_empty(), "not caught: {survivors:#?}");
}

#[test]
fn a_script_that_counts_wrong_is_caught() {
    let redis = Redis::start();
    check(MUTANTS, |config, script| {
        redis.command(&["FLUSHALL"]);
        let run = || disagree(config, &redis.url(), script);
        // An answer that cannot be read is caught as well.
        catch_unwind(AssertUnwindSafe(run)).is_ok_and(|found| found.is_ok())
    });
}

#[test]
fn a_script_that_forgets_too_early_or_too_late_is_caught() {
    let redis = Redis::start();
    check(MUTANTS_OF_LIFE, |config, script| {
        lifetimes_differ(config, &redis, MAX_WINDOW, script).is_ok()
    });
}
