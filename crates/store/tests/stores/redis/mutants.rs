//! The script, broken on purpose: whatever is wrong with it, the traces that it has to agree on find
//! it. Those that only the clock of a server shows are in [`super::mutants_by_clock`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::test_runner::{Config, RngSeed};
use tollgate_testbed::Redis;

use crate::redis::agreement::{DOUBLE_BOUNDS, SCRIPT, disagree};
use crate::redis::draw::{Reach, config};

/// Traces that a mutant may survive; all but one are caught within a tenth of that.
const MAX_TRACES: u32 = 1_500;
const SEED: u64 = 4;

/// What is wrong with it, what stands in the script, and what the mutant has instead.
pub(crate) type Mutant = (&'static str, &'static str, &'static str);

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
    ("a refund goes to any entry of a log", "if ahead <= c.slack then", "if true then"),
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
    ("the previous window is forgotten", "is_sliding and current or 0", "0"),
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
    ("a queue has no longest wait", "if l.is_delaying == 1 and exceeds", "if false and exceeds"),
    (
        "a refund rewrites a debt under the limit of its charge",
        "c.whole, c.rest, c.rate, c.at = whole, rest, limit, at\n      return",
        "c.whole, c.rest, c.rate, c.at = whole, rest, l.limit, at\n      return",
    ),
    ("a refund brings a debt to the time of the refund", "if not c.mode then", "if false then"),
    ("a refund leaves a debt below zero", "if c.whole < c.cost then", "if false then"),
    (
        "a record met again in a call is as it was before",
        "texts[r] = #entries > 0 and text\n",
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
    ("a reset forgets nothing", "o.entries[number] = nil", "o.entries[number] = e"),
    (
        "entries of one time are parted, and keep it",
        "TIME_BYTES[e.kind] == 0 or e.time ~= time",
        "TIME_BYTES[e.kind] == 0",
    ),
    (
        "an entry apart has the time of the others",
        "pack('<I4', e.kept) .. sub(e.body, place)",
        "pack('<I4', e.kept) .. time .. sub(e.body, place + 7)",
    ),
    (
        "some entries of one time are charged, and the others get their time",
        "(charged_together > 0 and charged_together < together)",
        "false",
    ),
    (
        "the entry of another limit is plain",
        "if h.kind ~= w.kind or h.constants ~= w.constants then",
        "if h.kind ~= w.kind then",
    ),
    (
        "any heads of the same length are those of the plan",
        "if not numbers or numbers[1] ~= layout.head then",
        "if not numbers then",
    ),
    (
        "heads are those of a layout of the same length",
        "#text == layout.bytes and string.sub(text, 1, #layout.head) == layout.head",
        "#text == layout.bytes",
    ),
    ("a small debt does not drain", "one = one - passed * rate\n", "one = one - 0\n"),
    (
        "a small debt goes below zero",
        "            if one < 0 then\n              one = 0\n            end\n",
        "",
    ),
    (
        "a small debt that is equal fits",
        "is_over = one >= c.bound\n            one = one + owed",
        "is_over = one > c.bound\n            one = one + owed",
    ),
    ("a small charge is not made", "one = one + owed", "one = one + 0"),
    (
        "a debt drains without the fraction, if it is plain",
        "rest - (product - gone * window)",
        "rest",
    ),
    (
        "no unit of a plain debt is borrowed",
        "              one, rest = one - 1, rest + window\n",
        "              rest = rest + window\n",
    ),
    (
        "a plain debt goes below zero",
        "            if one < 0 then\n              one, rest = 0, 0\n            end\n",
        "",
    ),
    ("a large product is plain", "if product >= EXACT or one > MAX_NUMBER", "if one > MAX_NUMBER"),
    ("a plain window never ends", "if now - passed < start then", "if false then"),
    (
        "the previous plain window is forgotten",
        "previous = is_sliding and now - passed >= start - window and one or 0",
        "previous = 0",
    ),
    (
        "a plain window is remembered for ever",
        "is_sliding and now - passed >= start - window and one",
        "is_sliding and one",
    ),
    (
        "a previous plain window is not written",
        "numbers[where + 1] = previous\n",
        "local _ = previous\n",
    ),
    (
        "the previous plain window is not weighted",
        "used = used + in_view\n              if product",
        "used = used + previous\n              if product",
    ),
    (
        "the previous plain window is rounded down",
        "if product > in_view * window then",
        "if false then",
    ),
    ("a plain window takes one more", "is_over = used >= c.bound", "is_over = used > c.bound"),
    ("a plain debt that is equal fits", "rest >= c.bound_rest)", "rest > c.bound_rest)"),
    (
        "a plain debt has whole units alone",
        "is_over = one > c.bound or (one == c.bound and rest >= c.bound_rest)",
        "is_over = one > c.bound",
    ),
    ("a clock behind is plain", "if passed < 0 or kept <= expired", "if kept <= expired"),
    (
        "a plain debt is not charged",
        "one, numbers[where + 1] = one + c.cost, rest",
        "one, numbers[where + 1] = one + 0, rest",
    ),
    (
        "a plain charge is made although a later one is refused",
        "texts[r], keep[r], replies[reply_count + k] = old_texts[k], old_keep[k], nil",
        "replies[reply_count + k] = nil",
    ),
    (
        "a plain charge is made although an earlier one is refused",
        "      if not flags then\n        local kept, known",
        "      if true then\n        local kept, known",
    ),
    (
        "a plain record met again is as it was before",
        "texts[r] = text\n        if not known",
        "if not known",
    ),
    ("a shadow charge that does not fit refuses", "if c.mode ~= ENFORCE or numbers", "if numbers"),
    ("a dry run charges", "plan.is_dry_run = is_dry_run == 1", "plan.is_dry_run = false"),
    (
        "the window of the calendar is the last that was sent",
        "if starts and starts <= now and now < ends then",
        "if starts and now < ends then",
    ),
    (
        "the tag of a charge loses its highest byte",
        "limits[limit], low + middle * 256 + high * 65536\n      plan[j]",
        "limits[limit], low + middle * 256\n      plan[j]",
    ),
    (
        "all charges have the first limit of a call",
        "limits[limit], low + middle * 256 + high * 65536\n      plan[j]",
        "limits[1], low + middle * 256 + high * 65536\n      plan[j]",
    ),
    ("the server's clock dates every call", "if is_dated == 0 then", "if true then"),
    ("the last record is not read", "unpack(KEYS, 1, records))", "unpack(KEYS, 1, records - 1))"),
    ("an emptied record stays", "written = write('UNLINK', key)", "written = 0"),
    ("what is written is kept for a moment", "kept > second and kept - second or 1", "0.001"),
];

/// The names of mutants that pass.
pub(crate) fn survivors(mutants: &[Mutant], passes: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let survives = |mutant: &&Mutant| passes(&mutate(mutant));
    mutants.iter().filter(survives).map(|(what, ..)| *what).collect()
}

/// Every mutant is caught by a trace.
pub(crate) fn check(mutants: &[Mutant], agrees: impl Fn(Config, &str) -> bool) {
    // The same traces every time; which of them shows it best does not matter.
    let config =
        Config { max_shrink_iters: 0, rng_seed: RngSeed::Fixed(SEED), ..config(MAX_TRACES) };
    let survivors = survivors(mutants, |script| agrees(config.clone(), script));
    assert!(survivors.is_empty(), "not caught: {survivors:#?}");
}

/// Every mutant is caught by a trace within this reach.
pub(crate) fn check_traces(mutants: &[Mutant], reach: Reach) {
    let redis = Redis::start();
    check(mutants, |config, script| {
        redis.command(&["FLUSHALL"]);
        let run = || disagree(config, reach, &redis.url(), script);
        // An answer that cannot be read is caught as well.
        catch_unwind(AssertUnwindSafe(run)).is_ok_and(|found| found.is_ok())
    });
}

#[test]
fn a_script_that_counts_wrong_is_caught() {
    check_traces(MUTANTS, DOUBLE_BOUNDS);
}
