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
        "amount.proportion(passed - windows * l.window, c.rate, l.window)",
        "amount.proportion(passed - windows * l.window, c.rate, l.window), 0",
    ),
    (
        "no unit is borrowed for a fraction",
        "          whole, rest = whole - 1, rest + l.window\n        end\n      else",
        "          rest = rest + l.window\n        end\n      else",
    ),
    ("whole windows do not drain", "gone = gone + windows * c.rate", "gone = gone + 0"),
    (
        "a clock ahead is believed by buckets",
        "at - now > l.believed then\n      at = now\n      c.healed = body(l, limit",
        "false then\n      at = now\n      c.healed = body(l, limit",
    ),
    ("a clock ahead is believed by windows", "at - now > c.limit.believed then", "false then"),
    ("a clock ahead is believed by logs", "newest_at - now > l.believed", "false"),
    (
        "a refund goes to the window before",
        "elseif charged == index - 1 then\n      c.previous = c.previous > c.cost and c.previous - c.cost or 0",
        "else\n      c.current = c.current > c.cost and c.current - c.cost or 0",
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
        "c.kernel.take(c, c.mode == DEBIT and l.most or MAX_NUMBER)",
        "c.kernel.take(c, MAX_NUMBER)",
    ),
    (
        "a debit needs the request to pass",
        "(c.mode == DEBIT or (passed and c.fits))",
        "(passed and c.fits)",
    ),
    (
        "a shadow charge is taken from a refused request",
        "(c.mode == DEBIT or (passed and c.fits))",
        "(c.mode == DEBIT or ((passed or c.mode == 1) and c.fits))",
    ),
    (
        "a shadow charge refuses",
        "if not c.fits and c.mode == ENFORCE then",
        "if not c.fits and c.mode ~= DEBIT then",
    ),
    (
        "a charge is taken although another refused",
        "(c.mode == DEBIT or (passed and c.fits))",
        "(c.mode == DEBIT or c.fits)",
    ),
    (
        "the previous window is not weighted",
        "used = used + in_view\n      if rest",
        "used = used + c.previous\n      if rest",
    ),
    (
        "the previous window is rounded down",
        "      if rest > 0 then\n        used = used + 1\n      end\n",
        "",
    ),
    ("the previous window is forgotten", "form == '<I6I6I7' and 0 or current", "0"),
    (
        "a raised limit keeps the fraction of another rate",
        "      if rest > 0 then\n        whole, rest = whole + 1, 0\n      end\n    else",
        "      rest = rest\n    else",
    ),
    ("a lowered limit drains at once at its rate", "      c.rate = limit\n", ""),
    (
        "beside a debt of another rate fractions count",
        "    if c.rate ~= l.limit then\n      rest = 0\n    end\n    return",
        "    return",
    ),
    (
        "a queue has no longest wait",
        "if l.is_delaying == 1 and (most > l.delayed",
        "if false and (most > l.delayed",
    ),
    (
        "a queue has no longest wait, in other requests",
        "if l.is_delaying == 1 and exceeds",
        "if false and exceeds",
    ),
    (
        "a refund rewrites a debt under the limit of its charge",
        "c.whole, c.rest, c.rate, c.at = whole, rest, limit, at\n      return",
        "c.whole, c.rest, c.rate, c.at = whole, rest, l.limit, at\n      return",
    ),
    ("a refund brings a debt to the time of the refund", "if not c.mode then", "if false then"),
    ("a refund leaves a debt below zero", "if c.whole < c.cost then", "if false then"),
    (
        "a record met again in a call is as it was before",
        "texts[r] = #numbers > 0 and text\n",
        "local _ = text\n",
    ),
    (
        "a state of another window counts",
        "return window == l.window and limit >= 1",
        "return limit >= 1",
    ),
    (
        "a state of another algorithm counts",
        "algorithm_of(e.kind) == l.algorithm and c.kernel.is_of",
        "c.kernel.is_of",
    ),
    (
        "a log counts on after another algorithm",
        "local text = bytes and type(head)",
        "local text = type(head)",
    ),
    (
        "a window starts when it is first used",
        "local since_start = at - floor(at / length) * length",
        "local since_start = 0",
    ),
    ("a window of the calendar never ends", "if at < l.starts then", "if false then"),
    ("a window of the calendar ends at any time", "if at < l.starts then", "if true then"),
    ("another calendar counts on", "length == l.window and id == l.calendar", "length == l.window"),
    (
        "a refund goes to another window of the calendar",
        "(c.charged_from <= c.at and c.at < c.charged_to)",
        "true",
    ),
    (
        "a clock ahead is believed by windows of the calendar",
        "at - now > l.believed then\n      c.at = now\n      c.healed = calendar",
        "false then\n      c.at = now\n      c.healed = calendar",
    ),
    ("a reset forgets nothing", "record.entries[number] = nil", "record.entries[number] = e"),
    (
        "entries of other rules before it are lost",
        "new = new .. sub(text, from, offset - 1)",
        "new = new .. ''",
    ),
    (
        "entries of other rules behind it are lost",
        "new = new .. sub(text, offset)\n",
        "new = new .. ''\n",
    ),
    (
        "a plain debt drains without the fraction",
        "one, other_one = one - gone, other_one - rest",
        "one = one - gone",
    ),
    (
        "no unit of a plain debt is borrowed",
        "            one, other_one = one - 1, other_one + window\n          end\n          if one",
        "            other_one = other_one + window\n          end\n          if one",
    ),
    (
        "a plain debt goes below zero",
        "          if one < 0 then\n            one, other_one = 0, 0\n          end\n",
        "",
    ),
    (
        "a large product is plain",
        "local window, product = c.window, passed * c.rate\n          if product >= EXACT then",
        "local window, product = c.window, passed * c.rate\n          if false then",
    ),
    ("a plain window never ends", "if at < c.start then", "if false then"),
    (
        "the previous plain window is forgotten",
        "other_one = algorithm == SLIDING and at >= c.start - c.window and one or 0",
        "other_one = 0",
    ),
    (
        "a plain window is remembered for ever",
        "algorithm == SLIDING and at >= c.start - c.window and one",
        "algorithm == SLIDING and one",
    ),
    (
        "the previous plain window is not weighted",
        "used = used + in_view\n        if product",
        "used = used + other_one\n        if product",
    ),
    (
        "the previous plain window is rounded down",
        "if product > in_view * window then",
        "if false then",
    ),
    (
        "what is plain and equal counts as more",
        "(used == most and other_one > c.most_rest)",
        "(used == most and other_one >= c.most_rest)",
    ),
    ("a clock behind is plain", "if passed < 0 or kept <= expired", "if kept <= expired"),
    ("a plain charge is not made", "one = one + c.cost", "one = one + 0"),
    (
        "a plain charge is made although another refused",
        "      if not flags then\n        texts[r] = news[k]",
        "      if news[k] then\n        texts[r] = news[k]",
    ),
    ("a plain record met again is as it was before", "texts[r] = news[k]\n", "local _ = 0\n"),
];

/// Mutants of how long keys are kept, as above.
const MUTANTS_OF_LIFE: &[Mutant] = &[
    ("a log is kept for ever", "      call('PEXPIRE', c.key, format('%.0f', ms))\n", ""),
    (
        "a log is kept for half a window",
        "    return c.limit.window\n",
        "    return c.limit.window / 2\n",
    ),
    ("a previous window is not kept", "(l.algorithm == SLIDING and 2 or 1) * l.window", "l.window"),
    (
        "a window is kept for its length twice",
        "local ends = c.start + (l.algorithm",
        "local ends = now + l.window + (l.algorithm",
    ),
    (
        "a debt is kept for a window",
        "local life = (one * c.window + other_one) / c.rate\n",
        "local life = c.window\n",
    ),
    (
        "a window is not kept until its end",
        "(ends - ends % 1000000) / 1000000 + 1 + extra",
        "(ends - ends % 1000000) / 1000000 - 1",
    ),
    (
        "all windows are kept for an hour more",
        "(ends - ends % 1000000) / 1000000 + 1 + extra",
        "(ends - ends % 1000000) / 1000000 + 3600",
    ),
    ("a key is never kept longer", "keep[r] = longer[k]", "keep[r] = keep[r] or 0"),
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
