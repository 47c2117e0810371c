-- Charges or refunds counters: `advance`, `fits`, `take` and `refund` of tollgate-core,
-- in numbers that are doubles. Reports are computed from the states elsewhere.
--
-- KEYS      one for each charge, of one slot; may repeat between requests
-- ARGV[1]   numbers in MessagePack:
--             time in us (-1: now by the clock of this server), ms to keep states beyond their expiry,
--             number of limits, and for each: algorithm, limit, window, room, its rest, delayed room
--             (-1: as much as there is), its rest, us ahead that are corrected, most a debit takes. Of the
--             calendar, also: its id, number of boundaries, and where its windows around the caller's time begin
--             for each request: 1, number of charges, and for each: limit, cost, mode
--                           or: 2, number of refunds, and for each: limit, units, us of the charge or -1,
--                               ms that it may be off, and of the calendar, where the window of the charge
--                               begins and ends
--                           or: 3, the same as 1, and ms to keep the record if it passes. The
--                               last of its KEYS is that of the record
--                           or: 4 or 6, the same as 1 or 3, but nothing is charged (a dry run)
--                           or: 7, the same as 2, and after each us when its charge ends. They are made once:
--                               the last of its KEYS is that of the mark
-- ARGV[2..] for each request with a record: digest of its body, note; with a mark: its content
-- reply     the time, then for each charge: fitted (0 or 1), written (0 or 1), state;
--           after `!`, why the whole request could not be settled.
--           Before the charges of a request with a record: `+` if it is the first, `=` and the time and
--           the note of the first if it is a copy, whose charges are those of the first. `~` (the
--           first had another body) and `!` are followed by no charges. For refunds that are made once, only
--           `+` and how many were made, `=` (they were made before), `-` (all have ended) or `!`
--
-- Amounts are whole units and a rest in 1/window of a unit, so that no fraction is lost.

local floor, ceil, format, match = math.floor, math.ceil, string.format, string.match
local call, pcall_redis = redis.call, redis.pcall
local TAGS = { 't', 'l', 'g', 'f', 'c', 's', 'f' }
local TOKEN_BUCKET, LEAKY_BUCKET, GCRA, FIXED, SLIDING, LOG, CALENDAR = 1, 2, 3, 4, 5, 6, 7
local ENFORCE, SHADOW, DEBIT = 0, 1, 2
local LONGEST_MS = 315360000000
local CHUNK = 32
-- Anything larger was not written here, and counts as absent: a number that a double cannot represent, a limit that
-- is not counted in, the text of a state, an entry of a log, the record of a request. A log has fewer entries than
-- the units that a debit takes at most, or than MAX_ENTRIES if that is less than what a larger limit may have left.
local MAX_NUMBER, MAX_LIMIT = 9007199254740991, 1099511627776
local MAX_TEXT, MAX_ENTRY, MAX_RECORD, MAX_ENTRIES = 128, 40, 262144, 20001
local now

local numbers = cmsgpack.unpack(ARGV[1])
local place = 0
local function number()
  place = place + 1
  return numbers[place]
end

-- a * b / w as whole number and rest, for a <= w < 2^45 and b < 2^42. A product too large for a double is computed
-- from seven bits of b at a time.
local function proportion(a, b, w)
  local product = a * b
  if product < 4503599627370496 then
    local whole = floor(product / w)
    local rest = product - whole * w
    if rest < 0 then
      return whole - 1, rest + w
    end
    return whole, rest
  end
  local whole, rest, scale = 0, 0, 34359738368
  for _ = 1, 6 do
    local digit = floor(b / scale)
    b = b - digit * scale
    scale = scale / 128
    rest = rest * 128 + a * digit
    local times = floor(rest / w)
    rest = rest - times * w
    if rest < 0 then
      times, rest = times - 1, rest + w
    end
    whole = whole * 128 + times
  end
  return whole, rest
end

-- Whether one amount is more than another.
local function exceeds(whole, rest, other_whole, other_rest)
  return whole > other_whole or (whole == other_whole and rest > other_rest)
end

-- Digits as a number; nil if there are none, or too many.
local function whole_number(digits)
  local value = tonumber(digits)
  return value and value <= MAX_NUMBER and value or nil
end

-- A string of the server, or nil if there is none or it is longer than `most`. Of one that is too long, little is
-- read. A key of another type counts as absent; any other error is an error.
local function read_string(key, most)
  local found = pcall_redis('GETRANGE', key, 0, most)
  if type(found) == 'string' then
    return #found > 0 and #found <= most and found or nil
  end
  if type(found) == 'table' and found.err and not match(found.err, '^WRONGTYPE') then
    error(found)
  end
  return nil
end

-- Token bucket, leaky bucket, GCRA: a debt that drains.
local bucket = {}

-- The numbers in the text of a state; nil if it is not one of the limit's.
function bucket.parse(l, text)
  local tag, limit, window, whole, rest, at =
    match(text, '^(%l):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  if tag ~= l.tag or tonumber(window) ~= l.window then
    return nil
  end
  limit, whole, rest, at =
    tonumber(limit), whole_number(whole), tonumber(rest), whole_number(at)
  if limit < 1 or limit > MAX_LIMIT or not whole or rest >= l.window or not at then
    return nil
  end
  return limit, whole, rest, at
end

function bucket.read(c, text)
  local l = c.limit
  c.whole, c.rest, c.rate, c.at = 0, 0, l.limit, now
  local limit, whole, rest, at = bucket.parse(l, text)
  if not limit then
    return
  end
  if c.mode and at - now > l.believed then
    at, c.healed = now, true
    text = format('%s:%.0f:%.0f:%.0f:%.0f:%.0f', l.tag, limit, l.window, whole, rest, at)
  end
  c.text = text
  -- A refund lessens what was owed at the last admission, under the limit of that admission: draining is linear, and
  -- the limit that comes with the refund may be an earlier one.
  if not c.mode then
    c.whole, c.rest, c.rate, c.at = whole, rest, limit, at
    return
  end
  if limit ~= l.limit then
    if l.limit > limit then
      if rest > 0 then
        whole, rest = whole + 1, 0
      end
    else
      c.rate = limit
    end
  end
  local passed = now - at
  if passed > 0 then
    at = now
    local windows = floor(passed / l.window)
    local gone, gone_rest = proportion(passed - windows * l.window, c.rate, l.window)
    gone = gone + windows * c.rate
    if exceeds(whole, rest, gone, gone_rest) then
      whole, rest = whole - gone, rest - gone_rest
      if rest < 0 then
        whole, rest = whole - 1, rest + l.window
      end
    else
      whole, rest = 0, 0
    end
  end
  c.whole, c.rest, c.at = whole, rest, at
end

function bucket.fits(c)
  local l = c.limit
  local room, rest = l.room - c.cost, l.room_rest
  if l.delayed >= 0 and exceeds(room, rest, l.delayed, l.delayed_rest) then
    room, rest = l.delayed, l.delayed_rest
  end
  if l.room < c.cost then
    return false
  end
  -- Beside a debt of another rate only whole units count.
  if c.rate ~= l.limit then
    rest = 0
  end
  return not exceeds(c.whole, c.rest, room, rest)
end

function bucket.take(c, most)
  local l = c.limit
  if c.rate ~= l.limit then
    if c.rest > 0 then
      c.whole, c.rest = c.whole + 1, 0
    end
    c.rate = l.limit
  end
  local whole, rest = c.whole + c.cost, c.rest
  if exceeds(whole, rest, most, 0) then
    whole, rest = most, 0
  end
  if exceeds(whole, rest, c.whole, c.rest) then
    c.whole, c.rest = whole, rest
  end
end

function bucket.refund(c)
  if c.whole < c.cost then
    c.whole, c.rest = 0, 0
  else
    c.whole = c.whole - c.cost
  end
end

function bucket.write(c)
  local l = c.limit
  c.text = format(
    '%s:%.0f:%.0f:%.0f:%.0f:%.0f', l.tag, c.rate, l.window, c.whole, c.rest, c.at)
end

function bucket.life(c)
  return (c.whole * c.limit.window + c.rest) / c.rate
end

-- Fixed window and sliding window counter: counts by window since the epoch.
local window = {}

-- The numbers in the text of a state; nil if it is not one of the limit's.
function window.parse(l, text)
  local length, at, current, previous
  if l.sliding then
    length, at, current, previous = match(text, '^c:(%d+):(%d+):(%d+):(%d+)$')
  else
    length, at, current = match(text, '^f:(%d+):(%d+):(%d+)$')
    previous = 0
  end
  if tonumber(length) ~= l.window then
    return nil
  end
  at, current, previous = whole_number(at), whole_number(current), whole_number(previous)
  if not at or not current or not previous then
    return nil
  end
  return at, current, previous
end

function window.read(c, text)
  local l = c.limit
  c.current, c.previous, c.at = 0, 0, now
  local at, current, previous = window.parse(l, text)
  if not at then
    return
  end
  if c.mode and at - now > l.believed then
    at, c.healed = now, true
    if l.sliding then
      text = format('c:%.0f:%.0f:%.0f:%.0f', l.window, at, current, previous)
    else
      text = format('f:%.0f:%.0f:%.0f', l.window, at, current)
    end
  end
  c.text = text
  local since_start = at - floor(at / l.window) * l.window
  if now > at then
    since_start = since_start + now - at
    at = now
  end
  if since_start >= 2 * l.window then
    current, previous = 0, 0
  elseif since_start >= l.window then
    current, previous = 0, l.sliding and current or 0
  end
  c.current, c.previous, c.at = current, previous, at
end

function window.fits(c)
  local l = c.limit
  local used = c.current + c.cost
  if c.previous > 0 then
    local passed = c.at - floor(c.at / l.window) * l.window
    local in_view, rest = proportion(l.window - passed, c.previous, l.window)
    used = used + in_view
    if rest > 0 then
      used = used + 1
    end
  end
  return used <= l.room
end

function window.take(c, most)
  local current = c.current + c.cost
  if current > most then
    current = most
  end
  if current > c.current then
    c.current = current
  end
end

function window.refund(c)
  local length = c.limit.window
  local index = floor(c.at / length)
  local charged = c.charged_at < 0 and index or floor(c.charged_at / length)
  if charged == index then
    c.current = c.current > c.cost and c.current - c.cost or 0
  elseif charged == index - 1 then
    c.previous = c.previous > c.cost and c.previous - c.cost or 0
  end
end

function window.write(c)
  local l = c.limit
  if l.sliding then
    c.text = format('c:%.0f:%.0f:%.0f:%.0f', l.window, c.at, c.current, c.previous)
  else
    c.text = format('f:%.0f:%.0f:%.0f', l.window, c.at, c.current)
  end
end

function window.life(c)
  local length = c.limit.window
  local left = length - (c.at - floor(c.at / length) * length)
  return c.limit.sliding and left + length or left
end

-- Fixed window of the calendar: the count of the window that contains `at`. The window of now is the one that the
-- caller sent for it; the caller's clock need not agree with this server's on which one that is.
local calendar = { fits = window.fits, take = window.take }

-- The numbers in the text of a state; nil if it is not one of the limit's.
function calendar.parse(l, text)
  local length, at, current, id = match(text, '^f:(%d+):(%d+):(%d+):(%d+)$')
  if tonumber(length) ~= l.window or tonumber(id) ~= l.calendar then
    return nil
  end
  at, current = whole_number(at), whole_number(current)
  if not at or not current then
    return nil
  end
  return at, current
end

function calendar.write(c)
  local l = c.limit
  c.text = format('f:%.0f:%.0f:%.0f:%.0f', l.window, c.at, c.current, l.calendar)
end

function calendar.read(c, text)
  local l = c.limit
  if not l.starts then
    error({ err = 'CLOCK the clocks of the caller and of this server are more than two windows apart' })
  end
  c.current, c.previous, c.at = 0, 0, now
  local at, current = calendar.parse(l, text)
  if not at then
    return
  end
  c.text, c.current, c.at = text, current, at
  if c.mode and at - now > l.believed then
    c.at, c.healed = now, true
    calendar.write(c)
  elseif at < now then
    c.at = now
    if at < l.starts then
      c.current = 0
    end
  end
end

function calendar.refund(c)
  if c.charged_at < 0 or (c.charged_from <= c.at and c.at < c.charged_to) then
    c.current = c.current > c.cost and c.current - c.cost or 0
  end
end

-- Of a count that is ahead of the clock, the end is not known; it comes within two windows.
function calendar.life(c)
  local l = c.limit
  return c.at < l.ends and l.ends - c.at or 2 * l.window
end

-- Sliding window log: a list whose first element is `s:<window>:<sum>`, the others `<us>=<units>`, oldest first. The
-- only state that is not read whole: it may be long.
local log = {}

-- Time and units of an entry; nil if it is not one.
local function entry(text)
  if not text or #text > MAX_ENTRY then
    return nil
  end
  local at, units = match(text, '^(%d+)=(%d+)$')
  at, units = whole_number(at), whole_number(units)
  if not at or not units then
    return nil
  end
  return at, units
end

local function entry_text(at, units)
  return format('%.0f=%.0f', at, units)
end

local function head_text(c)
  return format('s:%.0f:%.0f', c.limit.window, c.used)
end

-- A log that cannot be read counts as absent, and is replaced.
local function discard(c)
  c.used, c.first, c.at, c.newest = 0, 1, now, nil
  c.is_new, c.is_in_the_way, c.healed = true, true, nil
end

-- Moves entries in the future to now. Returns whether all of them could be read.
local function bring_back(c, length)
  local key, units = c.key, 0
  while length > 1 do
    local at, count = entry(call('LINDEX', key, length - 1))
    if not at then
      return false
    end
    if at <= now then
      break
    end
    units, length = units + count, length - 1
  end
  if units > MAX_NUMBER then
    return false
  end
  call('LTRIM', key, 0, length - 1)
  call('RPUSH', key, entry_text(now, units))
  return true
end

function log.read(c)
  local l, key = c.limit, c.key
  c.used, c.first, c.at = 0, 1, now
  local head = pcall_redis('LINDEX', key, 0)
  local text = type(head) == 'string' and #head <= MAX_ENTRY and head or ''
  local length, sum = match(text, '^s:(%d+):(%d+)$')
  sum = whole_number(sum)
  if tonumber(length) ~= l.window or not sum then
    c.is_new, c.is_in_the_way = true, head and true
    return
  end
  local entries = call('LLEN', key)
  if entries - 1 > (l.most > MAX_ENTRIES and l.most or MAX_ENTRIES) then
    return discard(c)
  end
  c.used = sum
  local newest_at = entries > 1 and entry(call('LINDEX', key, -1)) or nil
  if entries > 1 and not newest_at then
    return discard(c)
  end
  if c.mode and newest_at and newest_at - now > l.believed then
    if not bring_back(c, entries) then
      return discard(c)
    end
    newest_at, c.healed = now, true
  end
  if newest_at and newest_at > now then
    c.at = newest_at
  end
  c.newest = newest_at
  while true do
    local chunk = call('LRANGE', key, c.first, c.first + CHUNK - 1)
    for i = 1, #chunk do
      local at, units = entry(chunk[i])
      if not at then
        return discard(c)
      end
      if c.at - at < l.window then
        return
      end
      c.used, c.first = c.used - units, c.first + 1
      if c.used < 0 then
        return discard(c)
      end
    end
    if #chunk < CHUNK then
      -- All entries have expired, whatever the sum says.
      c.used, c.newest = 0, nil
      return
    end
  end
end

function log.fits(c)
  return c.used + c.cost <= c.limit.room
end

-- Removes expired entries, and writes the sum.
local function tidy(c)
  local key = c.key
  if c.is_new then
    -- Only now: after a write that needs no memory, a full server lets a script write more.
    if c.is_in_the_way then
      call('UNLINK', key)
    end
    call('RPUSH', key, head_text(c))
    c.is_new = false
  elseif c.first > 1 then
    call('LTRIM', key, c.first, -1)
    call('LPUSH', key, head_text(c))
    c.first = 1
  else
    call('LSET', key, 0, head_text(c))
  end
end

function log.take(c, most)
  local room = most > c.used and most - c.used or 0
  local cost = c.cost < room and c.cost or room
  c.used = c.used + cost
  tidy(c)
  if cost > 0 then
    local newest = c.newest
    if newest and floor(newest / 1000) == floor(c.at / 1000) then
      local _, units = entry(call('LINDEX', c.key, -1))
      call('LSET', c.key, -1, entry_text(c.at, (units or 0) + cost))
    else
      call('RPUSH', c.key, entry_text(c.at, cost))
    end
    c.newest = c.at
  end
end

function log.refund(c)
  tidy(c)
  local key, left = c.key, c.cost
  local tied = c.charged_at >= 0 and floor(c.charged_at / 1000)
  local place, is_emptied = call('LLEN', key) - 1, false
  while place >= 1 and left > 0 do
    local at, units = entry(call('LINDEX', key, place))
    local moment = at and floor(at / 1000)
    if not at or (tied and moment < tied - c.slack) then
      break
    end
    if not tied or moment - tied <= c.slack then
      local given = left < units and left or units
      left, c.used = left - given, c.used > given and c.used - given or 0
      if given == units then
        call('LSET', key, place, '')
        is_emptied = true
      else
        call('LSET', key, place, entry_text(at, units - given))
      end
    end
    place = place - 1
  end
  if is_emptied then
    call('LREM', key, 0, '')
  end
  tidy(c)
end

-- The entry that has to expire before at most `target` units are in use.
local function leaves(c, target)
  local used, place = c.used, c.first
  while used > target do
    local entries = call('LRANGE', c.key, place, place + CHUNK - 1)
    for i = 1, #entries do
      local at, units = entry(entries[i])
      if not at then
        return ''
      end
      used = used - units
      if used <= target then
        return format('%.0f', at)
      end
    end
    if #entries < CHUNK then
      return ''
    end
    place = place + CHUNK
  end
  return ''
end

-- The figures of a log: units in use, and the entries to wait for until one unit more is free, until the request
-- fits, and until nothing is in use.
function log.digest(c, is_refused)
  local l = c.limit
  local capacity = l.most / 2
  local next_target = (c.used < capacity and c.used or capacity) - 1
  local retry = ''
  if is_refused and c.cost <= l.room then
    retry = leaves(c, l.room - c.cost)
  end
  local newest = c.used > 0 and entry(call('LINDEX', c.key, -1))
  return format('%.0f:%s:%s:%s', c.used, c.used > 0 and leaves(c, next_target) or '', retry,
    newest and format('%.0f', newest) or '')
end

function log.life(c)
  return c.limit.window
end

local KERNELS = { bucket, bucket, bucket, window, window, log, calendar }

now = number()
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local extra = number()
local limits = {}
for i = 1, number() do
  local algorithm = number()
  limits[i] = {
    kernel = KERNELS[algorithm], tag = TAGS[algorithm], sliding = algorithm == SLIDING,
    is_log = algorithm == LOG,
    limit = number(), window = number(), room = number(), room_rest = number(),
    delayed = number(), delayed_rest = number(), believed = number(), most = number(),
  }
  if algorithm == CALENDAR then
    local l = limits[i]
    l.calendar = number()
    local starts
    for _ = 1, number() do
      local ends = number()
      if starts and starts <= now and now < ends then
        l.starts, l.ends = starts, ends
      end
      starts = ends
    end
  end
end

-- Texts by key, so that a counter that is used again in this call is not read again; changes are written once, at the
-- end.
local texts, lives = {}, {}

local function read(c)
  if c.limit.is_log then
    log.read(c)
    return
  end
  local text = texts[c.key]
  if text == nil then
    -- A list is the log of another algorithm, which counts as absent.
    text = read_string(c.key, MAX_TEXT) or ''
    texts[c.key] = text
  end
  c.limit.kernel.read(c, text)
end

local function keep(c)
  -- A refunded debt is as of its last admission, so that some of its life may have passed.
  local life = c.limit.kernel.life(c) + c.at - now
  if life < 0 then
    life = 0
  end
  local ms = ceil(life / 1000) + extra
  if ms > LONGEST_MS then
    ms = LONGEST_MS
  end
  if c.limit.is_log then
    call('PEXPIRE', c.key, format('%.0f', ms))
    texts[c.key], lives[c.key] = nil, nil
  else
    texts[c.key], lives[c.key] = c.text, format('%.0f', ms)
  end
end

-- A log is written at once, so a pending text under its key is written first.
local function settle_waiting(c)
  if c.limit.is_log and lives[c.key] then
    call('SET', c.key, texts[c.key], 'PX', lives[c.key])
    texts[c.key], lives[c.key] = nil, nil
  end
end

local function settle(charges)
  local passed = not charges.is_dry_run
  for i = 1, #charges do
    local c = charges[i]
    local l = c.limit
    c.text = ''
    if l.limit > 0 then
      settle_waiting(c)
      read(c)
    end
    c.fits = c.mode == DEBIT or c.cost == 0 or (l.limit > 0 and l.kernel.fits(c))
    if not c.fits and c.mode == ENFORCE then
      passed = false
    end
  end
  -- Logs first: they are written at once, which may fail, and then nothing else has been charged.
  for _, is_log in ipairs({ true, false }) do
    for i = 1, #charges do
      local c = charges[i]
      local l = c.limit
      if l.is_log == is_log then
        local is_taken = c.cost > 0 and l.limit > 0 and not charges.is_dry_run
          and (c.mode == DEBIT or (passed and c.fits))
        if is_taken then
          l.kernel.take(c, c.mode == DEBIT and l.most or 9007199254740991)
          if not is_log then
            l.kernel.write(c)
          end
        end
        if is_taken or c.healed then
          c.written = true
          keep(c)
        end
      end
    end
  end
  return passed
end

local function refund(charges)
  for i = 1, #charges do
    local c = charges[i]
    local l = c.limit
    c.text, c.said = '', ''
    if l.limit > 0 and c.cost > 0 then
      settle_waiting(c)
      read(c)
      local is_there = (l.is_log and not c.is_new) or c.text ~= ''
      if is_there then
        l.kernel.refund(c)
        if not l.is_log then
          l.kernel.write(c)
        end
        c.written = true
        keep(c)
      end
    end
  end
end

-- Refunds charges that have not ended, unless their mark is there. The mark is written first: if that fails, nothing
-- was refunded, and whatever fails later, nothing is refunded twice.
local function refund_once(charges)
  local mark = charges.mark
  local lasting, longest = {}, 0
  for i = 1, #charges do
    local left = charges[i].ends_at - now
    if left > 0 then
      lasting[#lasting + 1] = charges[i]
      longest = left > longest and left or longest
    end
  end
  local found = read_string(mark.key, MAX_TEXT)
  if found and found ~= mark.content then
    mark.verdict = '='
    return
  end
  mark.verdict = #lasting > 0 and '+' .. #lasting or '-'
  if #lasting > 0 and not found then
    local ms = ceil(longest / 1000) + extra
    call('SET', mark.key, mark.content, 'PX', format('%.0f', ms < LONGEST_MS and ms or LONGEST_MS))
    refund(lasting)
  end
end

-- The results of charges that were settled. Later requests change what a digest is computed from.
local function describe(charges)
  for i = 1, #charges do
    local c = charges[i]
    if c.limit.is_log and c.limit.limit > 0 then
      c.text = log.digest(c, not c.fits)
    end
    c.said = (c.fits and '1' or '0') .. (c.written and '1' or '0') .. c.text
  end
end

local function settle_plain(charges)
  settle(charges)
  describe(charges)
end

-- Records of this call and those that were read, so that copies in one call find each other, and the requests that
-- wrote them.
local records, firsts = {}, {}

-- The record in a string; nil if it is not one.
local function unpack_record(packed)
  local is_read, record = pcall(cmsgpack.unpack, packed)
  if is_read and type(record) == 'table' and type(record.body) == 'string'
    and type(record.note) == 'string' and type(record.said) == 'table'
    and type(record.at) == 'string' and match(record.at, '^%d+$') and whole_number(record.at) then
    return record
  end
  return nil
end

local function record_of(once)
  if records[once.key] == nil then
    local found = read_string(once.key, MAX_RECORD)
    records[once.key] = found and unpack_record(found) or false
  end
  return records[once.key]
end

-- The result of a charge in a record; nil if it has none that can be read.
local function said_of(record, c)
  local l, said = c.limit, record.said[c.limit.tag .. c.key]
  if type(said) ~= 'string' or #said > MAX_TEXT or not match(said, '^[01][01]') then
    return nil
  end
  local text = string.sub(said, 3)
  if l.limit == 0 or not l.is_log then
    return (text == '' or l.kernel.parse(l, text)) and said or nil
  end
  for digits in string.gmatch(text, '%d+') do
    if not whole_number(digits) then
      return nil
    end
  end
  return match(text, '^%d+:%d*:%d*:%d*$') and said or nil
end

local function settle_once(charges)
  local once = charges.once
  local record = record_of(once)
  if record then
    charges.first = firsts[once.key]
    if record.body ~= once.body then
      once.verdict = '~'
      return
    end
    once.verdict = '=' .. record.at .. ':' .. record.note
    for i = 1, #charges do
      local c = charges[i]
      c.said = said_of(record, c)
      -- A limit that did not exist then is read now.
      if not c.said then
        c.cost = 0
        settle_plain({ c })
      end
    end
    return
  end
  once.verdict = '+'
  local passed = settle(charges)
  describe(charges)
  if passed then
    record = { body = once.body, note = once.note, at = format('%.0f', now), said = {} }
    for i = 1, #charges do
      local c = charges[i]
      record.said[c.limit.tag .. c.key] = c.said
    end
    records[once.key], firsts[once.key] = record, charges
    once.record = record
  end
end

local REFUND, SETTLE_ONCE, DRY_RUN, REFUND_ONCE = 2, 3, 3, 7
local DEEDS = { settle_plain, refund, settle_once, [REFUND_ONCE] = refund_once }

local answer = { format('%.0f', now) }
local requests = {}
local key, argument = 0, 1
while place < #numbers do
  local kind = number()
  local charges = { is_dry_run = kind > DRY_RUN and kind < REFUND_ONCE }
  if charges.is_dry_run then
    kind = kind - DRY_RUN
  end
  for i = 1, number() do
    key = key + 1
    local c = { key = KEYS[key], limit = limits[number()], cost = number() }
    if kind == REFUND or kind == REFUND_ONCE then
      c.charged_at, c.slack = number(), number()
      if c.limit.calendar then
        c.charged_from, c.charged_to = number(), number()
      end
      c.ends_at = kind == REFUND_ONCE and number()
    else
      c.mode = number()
    end
    charges[i] = c
  end
  if kind == SETTLE_ONCE then
    key, argument = key + 1, argument + 2
    charges.once = {
      key = KEYS[key], body = ARGV[argument - 1], note = ARGV[argument], life = number(),
    }
  end
  if kind == REFUND_ONCE then
    key, argument = key + 1, argument + 1
    charges.mark = { key = KEYS[key], content = ARGV[argument] }
  end
  local is_done, why = pcall(DEEDS[kind], charges)
  if not is_done then
    charges.failure = type(why) == 'table' and why.err or tostring(why)
  end
  requests[#requests + 1] = charges
end

local failures = {}
for k, life in pairs(lives) do
  local written = pcall_redis('SET', k, texts[k], 'PX', life)
  if type(written) == 'table' and written.err then
    failures[k] = written.err
  end
end

for i = 1, #requests do
  local charges = requests[i]
  local failure, once, mark = charges.failure, charges.once, charges.mark
  for j = 1, #charges do
    failure = failure or (charges[j].written and failures[charges[j].key])
  end
  if charges.first then
    failure = failure or charges.first.failure
  end
  if once and once.record and not failure then
    local record = cmsgpack.pack(once.record)
    local written = pcall_redis('SET', once.key, record, 'PX', format('%.0f', once.life))
    failure = type(written) == 'table' and written.err or nil
  end
  charges.failure = failure
  local first = once or mark
  if first then
    answer[#answer + 1] = failure and '!' .. failure or first.verdict
  end
  if not first or (once and once.verdict ~= '~' and not failure) then
    for j = 1, #charges do
      answer[#answer + 1] = failure and '!' .. failure or charges[j].said
    end
  end
end
return answer
