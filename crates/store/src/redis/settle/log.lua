-- Sliding window log: a list whose first element is `s:<window>:<sum>`, the others `<us>=<units>`, oldest first. The
-- only state that is not read whole: it may be long. Without its entry in the record, since the rule counted by another
-- algorithm meanwhile, what is left of the list counts as absent.
local function log_kernel(now)
  local floor, format, match = math.floor, string.format, string.match
  local call, pcall_redis = redis.call, redis.pcall
  local CHUNK = 32
  -- Anything larger was not written here: a number, an entry. A log has fewer entries than the units that a debit takes
  -- at most, or than MAX_ENTRIES if that is less than what a larger limit may have left.
  local MAX_NUMBER, MAX_ENTRY, MAX_ENTRIES = 9007199254740991, 40, 20001
  local log = {}

  -- Digits as a number; nil if there are none, or too many.
  local function whole_number(digits)
    local value = tonumber(digits)
    return value and value <= MAX_NUMBER and value or nil
  end

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

  -- Whether an entry of a record names a log of the limit.
  function log.is_of(l, bytes)
    return struct.unpack('<I6', bytes) == l.window
  end

  function log.read(c, bytes)
    local l, key = c.limit, c.key
    c.used, c.first, c.at = 0, 1, now
    local head = pcall_redis('LINDEX', key, 0)
    local text = bytes and type(head) == 'string' and #head <= MAX_ENTRY and head or ''
    local length, sum = match(text, '^s:(%d+):(%d+)$')
    sum = whole_number(sum)
    if not sum or tonumber(length) ~= l.window then
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
    return c.used + c.cost + c.held <= c.limit.room
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

  local function is_nearer(one, other)
    if one.distance ~= other.distance then
      return one.distance < other.distance
    end
    return one.place > other.place
  end

  -- The entries that a refund goes to, in order: the newest first; of one that is tied to a time, the nearest first. Other
  -- entries would be missed by their own refunds.
  local function charged_entries(c)
    local key, found, sum = c.key, {}, 0
    local tied = c.charged_at >= 0 and floor(c.charged_at / 1000)
    local is_near = tied and c.slack > 0
    local place = call('LLEN', key) - 1
    while place >= 1 and (sum < c.cost or is_near) do
      local at, units = entry(call('LINDEX', key, place))
      local ahead = at and tied and floor(at / 1000) - tied or 0
      if not at or ahead < -c.slack then
        break
      end
      if ahead <= c.slack then
        found[#found + 1] = { place = place, at = at, units = units, distance = math.abs(ahead) }
        sum = sum + units
      end
      place = place - 1
    end
    if is_near then
      table.sort(found, is_nearer)
    end
    return found
  end

  function log.refund(c)
    tidy(c)
    local key, left, is_emptied = c.key, c.cost, false
    local found = charged_entries(c)
    for i = 1, #found do
      local at, units = found[i].at, found[i].units
      local given = left < units and left or units
      left, c.used = left - given, c.used > given and c.used - given or 0
      if given == units then
        call('LSET', key, found[i].place, '')
        is_emptied = true
      elseif given > 0 then
        call('LSET', key, found[i].place, entry_text(at, units - given))
      end
    end
    if is_emptied then
      call('LREM', key, 0, '')
    end
    tidy(c)
  end

  -- When the entry expires that has to, before at most `target` units are in use; nil if there is none.
  local function leaves(c, target)
    local used, place = c.used, c.first
    while target >= 0 and used > target do
      local entries = call('LRANGE', c.key, place, place + CHUNK - 1)
      for i = 1, #entries do
        local at, units = entry(entries[i])
        if not at then
          return nil
        end
        used = used - units
        if used <= target then
          return at
        end
      end
      if #entries < CHUNK then
        return nil
      end
      place = place + CHUNK
    end
    return nil
  end

  -- The figures of a log: units in use, and the entries to wait for until one unit more is free, until the request
  -- fits, and until nothing is in use. Times are one us later, so that 0 is none.
  function log.figures(c)
    local l = c.limit
    local capacity = l.most / 2
    local soonest, retry, newest
    if c.used > 0 then
      local free = capacity - c.held
      soonest = leaves(c, (c.used < free and c.used or free) - 1)
      newest = entry(call('LINDEX', c.key, -1))
    end
    if not c.fits and c.cost <= l.room then
      retry = leaves(c, l.room - c.cost - c.held)
    end
    return struct.pack('<I7I7I7I7', c.used, soonest and soonest + 1 or 0, retry and retry + 1 or 0,
      newest and newest + 1 or 0)
  end

  function log.body(c)
    return struct.pack('<I6', c.limit.window)
  end

  function log.life(c)
    return c.limit.window
  end

  return log
end
