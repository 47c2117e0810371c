-- The record of a subject: all counters of rules that count by the same identifiers. A byte of version, then the heads
-- of its entries, by tag:
--   3 tag of its rule, 1 kind + 32 if it has flags + 64 if it is apart + 128 if another head follows, and
--   of a bucket          6 limit, 6 window (its kind is its algorithm)
--   of a small bucket    2 limit, 3 window in seconds (8 + its algorithm)
--   of a window, a log   6 window
--   of a small window    3 window in seconds (8 + its algorithm)
--   of the calendar      6 window, 7 its id
--   of kind 0            nothing: what was used is forgotten, flags are not
-- then, unless all entries are apart, 4 second until which the others are kept, 7 their time: that of the last request,
-- which mostly charges them all. And then, in the same order, of each entry:
--   if it is apart, 4 second until which it is kept, 7 its time. Logs and kind 0 are always apart, and have no time
--   of a bucket          7 whole units owed, 6 rest in 1/window of a unit
--   of a small bucket    7 what is owed, in 1/window of a unit
--   of a fixed window    6 count, or 4 if it is small
--   of a sliding window  6 count, 6 previous count, or 4 each
--   of the calendar      7 start of the window, 6 count
--   of a log             nothing. The log itself is a list of its own, which counts as absent without this entry
--   if it has flags, 1 length and as many bytes: 1 flags; with the flag 1, 6 held units, 7 when the next of them
--   expires. Whatever else follows is carried over unread, as are entries that a call does not charge
--
-- A record of another version begins with another byte, up to 15, and so does one with another kind of entry. This version
-- leaves it as it is: it could not carry it over.
--
-- Heads change only when rules do: one comparison tells that a record has the entries that a request charges, and then
-- all its numbers are read at once, and written at once.
local function record_format()
  local byte, sub, pack, unpack_bytes = string.byte, string.sub, struct.pack, struct.unpack
  local VERSION, LOG, MAX_VERSION = '\1', 6, 15
  local FLAGGED, APART, FOLLOWED = 32, 64, 128
  -- A group has 64 rules at most. The rest is for entries of earlier rules, until they expire; a record with more was not
  -- written here, and reading it would keep Redis from other calls.
  local MAX_ENTRIES = 1024
  -- By kind: how long a head is, and what its numbers are.
  local HEAD_BYTES = { [0] = 4, 16, 16, 16, 10, 10, 10, 17, [9] = 9, [10] = 9, [11] = 9, [12] = 7, [13] = 7 }
  local NUMBERS = {
    [0] = '', 'I7I6', 'I7I6', 'I7I6', 'I6', 'I6I6', '', 'I7I6',
    [9] = 'I7', [10] = 'I7', [11] = 'I7', [12] = 'I4', [13] = 'I4I4',
  }
  local NUMBER_BYTES = {
    [0] = 0, 13, 13, 13, 6, 12, 0, 13, [9] = 7, [10] = 7, [11] = 7, [12] = 4, [13] = 8,
  }
  local TIME_BYTES = { [0] = 0, 7, 7, 7, 7, 7, 0, 7, [9] = 7, [10] = 7, [11] = 7, [12] = 7, [13] = 7 }
  local format = { NUMBERS = NUMBERS, NUMBER_BYTES = NUMBER_BYTES, TIME_BYTES = TIME_BYTES }

  -- The length of a body; nil if there is no such kind.
  function format.body_bytes(kind)
    return HEAD_BYTES[kind] and HEAD_BYTES[kind] - 4 + TIME_BYTES[kind] + NUMBER_BYTES[kind]
  end

  -- Whether a later version wrote a record. Anything else that cannot be read counts as absent, and is replaced.
  function format.is_later(text)
    local version = byte(text)
    return version and version > byte(VERSION) and version <= MAX_VERSION
  end

  -- The entries of a record, as far as their heads tell, and where these end; none if it cannot be read.
  function format.read_heads(text)
    local heads, place, is_followed = {}, 2, byte(text) == 1
    while is_followed do
      local low, middle, high, bits = byte(text, place, place + 3)
      local kind = bits and bits % FLAGGED
      local bytes, is_apart = HEAD_BYTES[kind], bits and bits % FOLLOWED >= APART
      if not bytes or #heads == MAX_ENTRIES or #text < place + bytes - 1 or (not is_apart and TIME_BYTES[kind] == 0) then
        return {}, 2
      end
      heads[#heads + 1] = {
        tag = sub(text, place, place + 2), number = low + middle * 256 + high * 65536, kind = kind,
        constants = sub(text, place + 4, place + bytes - 1), is_flagged = bits % APART >= FLAGGED, is_apart = is_apart,
        kept = 0, body = '', tail = '',
      }
      place, is_followed = place + bytes, bits >= FOLLOWED
    end
    return heads, place
  end

  -- The entries of a record by the numbers of their tags, as far as it can be read. The body of an entry is its head
  -- without tag and kind, its time and its numbers; the tail is what follows if it has flags.
  function format.read(text)
    local entries, kept, time = {}, nil, nil
    local heads, place = format.read_heads(text)
    for i = 1, #heads do
      if not heads[i].is_apart and not time then
        time = sub(text, place + 4, place + 10)
        if #time < 7 then
          return entries
        end
        kept, place = unpack_bytes('<I4', text, place), place + 11
      end
    end
    for i = 1, #heads do
      local e = heads[i]
      local bytes, prefix = NUMBER_BYTES[e.kind], e.constants
      if e.is_apart then
        e.kept = #text >= place + 3 and unpack_bytes('<I4', text, place)
        place, bytes = place + 4, bytes + TIME_BYTES[e.kind]
      else
        e.kept, prefix = kept, prefix .. time
      end
      e.body = prefix .. sub(text, place, place + bytes - 1)
      place = place + bytes
      if e.is_flagged then
        local length = byte(text, place) or 0
        e.tail = sub(text, place, place + length)
        place = place + 1 + length
      end
      if #text < place - 1 then
        return entries
      end
      entries[e.number] = e
    end
    return entries
  end

  -- The record of these entries, and the second until which it is kept. Entries of the latest time share it.
  function format.write(entries)
    local latest, time, kept, all_kept = -1, nil, 0, 0
    for i = 1, #entries do
      local e = entries[i]
      if TIME_BYTES[e.kind] > 0 then
        local place = HEAD_BYTES[e.kind] - 3
        e.time = sub(e.body, place, place + 6)
        local at = e.time == time and latest or unpack_bytes('<I7', e.time)
        if at > latest then
          latest, time, kept = at, e.time, 0
        end
        kept = e.time == time and e.kept > kept and e.kept or kept
      end
      all_kept = e.kept > all_kept and e.kept or all_kept
    end
    local heads, numbers = { VERSION }, { time and pack('<I4', kept) .. time or '' }
    for i = 1, #entries do
      local e = entries[i]
      local place, is_apart = HEAD_BYTES[e.kind] - 3, TIME_BYTES[e.kind] == 0 or e.time ~= time
      local bits = (e.tail ~= '' and FLAGGED or 0) + (is_apart and APART or 0) + (i < #entries and FOLLOWED or 0)
      heads[i + 1] = e.tag .. string.char(e.kind + bits) .. sub(e.body, 1, place - 1)
      numbers[i + 1] = (is_apart and pack('<I4', e.kept) .. sub(e.body, place) or sub(e.body, place + 7)) .. e.tail
    end
    return table.concat(heads) .. table.concat(numbers), all_kept
  end

  return format
end
