-- The record of a subject: all counters of rules that count by the same identifiers. A byte of version, then the
-- entries, by tag:
--   4 second until which it is kept, 3 tag of its rule, 1 kind + 16 * flags, and
--   of a bucket          6 limit, 6 window, 7 whole units owed, 6 rest, 7 time (its kind is its algorithm)
--   of a small bucket    2 limit, 3 window in seconds, 2 whole units owed, 5 rest, 7 time (8 + its algorithm)
--   of a fixed window    6 window, 6 count, 7 time
--   of a sliding window  6 window, 6 count, 6 previous count, 7 time
--   of a log             6 window. The log itself is a list of its own, which counts as absent without this entry
--   of the calendar      6 window, 7 its id, 7 start of the window, 6 count, 7 time
--   of kind 0            nothing: what was used is forgotten, flags are not
-- If there are flags, 1 length and as many bytes follow. Of the flag 1, they begin with 6 held units and 7 when the
-- next of them expires. Whatever else follows is carried over unread, as are entries that a call does not charge.
local VERSION = '\1'
local ENTRY_BYTES = { [0] = 8, 40, 40, 40, 27, 33, 14, 41, [9] = 27, [10] = 27, [11] = 27 }
-- The entries of plain charges: kept until, tag to window, numbers, time.
local FORMS = {
  '<I4c16I7I6I7', '<I4c16I7I6I7', '<I4c16I7I6I7', '<I4c10I6I7', '<I4c10I6I6I7',
  [9] = '<I4c9I2I5I7', [10] = '<I4c9I2I5I7', [11] = '<I4c9I2I5I7',
}

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
