//! Mutants of the script that traces with a clock of their own do not notice: of records that are written in place, of
//! entries that expire, and of how long keys are kept.

use tollgate_core::MAX_WINDOW;
use tollgate_testbed::Redis;

use crate::redis::agreement::BY_SERVERS_CLOCK;
use crate::redis::lifetimes::lifetimes_differ;
use crate::redis::mutants::{Mutant, check, check_traces};

/// Mutants of what is done by the server's clock alone: records are written in place, and entries expire.
const MUTANTS_BY_SERVERS_CLOCK: &[Mutant] = &[
    (
        "a record of another length is written in place",
        "if kept == 0 and text then",
        "if text then",
    ),
    (
        "a record is not written in place",
        "written = write('SETRANGE', key, '0', text)",
        "written = #text",
    ),
    (
        "a record is written in place behind its version",
        "written = write('SETRANGE', key, '0', text)",
        "written = write('SETRANGE', key, '1', string.sub(text, 2, -2)) + 1",
    ),
    (
        "a record that need not be kept longer is not written",
        "if not known or kept > known then",
        "if kept > (known or 0) then",
    ),
    (
        "what is kept for another hour has expired",
        "if e.kept <= expired then",
        "if e.kept <= expired + 3600 then",
    ),
];

/// Mutants of how long keys are kept.
const MUTANTS_OF_LIFE: &[Mutant] = &[
    (
        "the second is an hour ahead",
        "local second = (now - now % 1000000) / 1000000\n-- What",
        "local second = (now - now % 1000000) / 1000000 + 3600\n-- What",
    ),
    (
        "the second is an hour behind",
        "local second = (now - now % 1000000) / 1000000\n-- What",
        "local second = (now - now % 1000000) / 1000000 - 3600\n-- What",
    ),
    ("a log is kept for ever", "      call('PEXPIRE', c.key, format('%.0f', ms))\n", ""),
    (
        "a log is kept for half a window",
        "    return c.limit.window\n",
        "    return c.limit.window / 2\n",
    ),
    ("a previous window is not kept", "(kind == SLIDING and 2 or 1) * window", "window"),
    (
        "a window is kept for its length twice",
        "local ends = start + (kind",
        "local ends = now + window + (kind",
    ),
    (
        "a debt is kept for a window",
        "needed = (margin + (one * window + rest) / rate) / 1000000\n",
        "needed = (margin + window) / 1000000\n",
    ),
    (
        "a small debt is kept for its whole limit",
        "needed = (margin + one / rate) / 1000000\n",
        "needed = (margin + c.bound / rate) / 1000000\n",
    ),
    (
        "a small debt is not kept longer when it grows",
        "if one > (kept * 1000000 - margin) * rate then",
        "if one > kept * 1000000 * rate then",
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
    (
        "a key is never kept longer",
        "keep[r] = kept\n        end\n        replies",
        "keep[r] = 0\n        end\n        replies",
    ),
];

#[test]
fn a_script_that_counts_wrong_by_the_servers_clock_is_caught() {
    check_traces(MUTANTS_BY_SERVERS_CLOCK, BY_SERVERS_CLOCK);
}

#[test]
fn a_script_that_forgets_too_early_or_too_late_is_caught() {
    let redis = Redis::start();
    check(MUTANTS_OF_LIFE, |config, script| {
        lifetimes_differ(config, &redis, MAX_WINDOW, script).is_ok()
    });
}
