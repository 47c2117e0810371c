-- Charges, refunds and resets counters: `advance`, `fits`, `take` and `refund` of tollgate-core, in numbers that are
-- doubles. Reports are computed from the states elsewhere.
--
-- KEYS      the records, each once, and then the keys that requests name beside them: logs, records of idempotency
--           keys, marks of refunds. All of one slot
-- ARGV[1]   numbers, little endian, in bytes:
--             1 whether the caller's clock dates the call, 7 its time in us, 4 s to keep states beyond their expiry,
--             2 number of records, 2 of plans
--             each plan: 1 whether it is plain, 2 number of records, 2 of logs. If it is plain, each record:
--               2 length, and the heads of its entries with the version, as they are in records; 2 length, and the form
--               of a record with these heads, for struct; 2 length of such a record, 2 number of charges
--               each charge, by tag: 1 what it is of, 1 mode, 6 limit, 6 window, 7 cost, and the amount from which on
--               it does not fit, 7 units and 6 rest; 1 s that a debt is kept beyond what it needs. Of small buckets,
--               cost and amount are in 1/window of a unit
--             each request: 1 what it is,
--               0 charges, for one request or several: 2 plan, 2 how many, of each: 2 each of its records, 2 each of
--                 its logs
--               1 refunds: 2 how many, each: 2 record, 2 limit, 3 tag, 7 units, 1 whether it is tied to a time,
--                 7 that time, 4 ms that it may be off; for a log, 2 its key; of the calendar, 7 where the window of
--                 the charge begins, 7 where it ends
--               2 refunds that are made once: as 1, each with 7 when its charge ends; 2 key of the mark
--               3 resets: 2 how many, each: 2 record, 3 tag, 2 key of its log
--               4 charges that are made once: 2 plan, 2 each of its records, 2 each of its logs; 2 key of their record,
--                 6 ms that it is kept
-- ARGV[2]   the same in full, for requests that are not plain: 2 number of limits, 2 of plans
--             each limit: 1 kind of its entries, 6 limit, 6 window, 7 room, 6 its rest, 1 whether it delays, 7 delayed
--               room, 6 its rest, 7 us ahead that are corrected, 7 most that a debit takes. Of the calendar, also: 7
--               its id, 1 number of boundaries, 7 each: where its windows around the caller's time begin
--             each plan: 1 whether it is a dry run, 2 number of records, 2 of charges
--               each charge, by record and tag: 2 record, 2 limit, 3 tag of its rule, 7 cost, 1 mode
-- ARGV[3..] of each request that is made once, in order: for refunds the content of the mark; for charges the digest
--           of the body, the note
-- reply     the time in 7 bytes, then for each request:
--             of charges, their records, or '' for those that are absent. Before them, unless all charges fit and were
--             made, `.` and for each charge `0` + 1 if it fits + 2 if it was written; after them, for each log 4 times
--             7 bytes of figures
--             of charges that are made once, before that: `=`, 7 bytes of time and the note of the first, if these are
--             a copy, whose results are those of the first; or only `?`, if the first had another body
--             of refunds that are made once: `+` and to how many counters, `=` if they were made before, `-` if all
--             charges have ended; of other refunds and resets: `+`
--             or else `!` and why the request could not be carried out
--
-- Amounts are whole units and a rest in 1/window of a unit, or one number in 1/window of a unit, so that no fraction is
-- lost.

local byte, pack, unpack_bytes = string.byte, struct.pack, struct.unpack
local call = redis.call
local args = ARGV[1]
local ENFORCE = 0
-- What plain requests charge.
local SMALL_BUCKET, BUCKET, FIXED, SLIDING = 1, 2, 3, 4
-- Anything larger was not written here, and counts as absent: a number that a double cannot represent.
local MAX_NUMBER = 9007199254740991
-- A product below this is exact, and so are its quotient and rest.
local EXACT = 4503599627370496

local is_dated, now, extra, records, plan_count, place = unpack_bytes('<BI7I4HH', args)
if is_dated == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local second = (now - now % 1000000) / 1000000
-- What is kept until this second, or an earlier one, has expired. By the caller's clock, which may jump, nothing has.
local expired = is_dated == 1 and -1 or second
-- Counters that are kept for longer than ten years are not plain.
local longest = second + 315360000

-- The records as they are after the requests so far, false if absent; and of those that were changed, the second until
-- which they have to be kept, or 0 if neither that nor their length has changed.
local texts, keep = {}, {}
if records <= 4000 then
  texts = call('MGET', unpack(KEYS, 1, records))
else
  for r = 1, records do
    texts[r] = call('MGET', KEYS[r])[1]
  end
end
