-- Token bucket, leaky bucket, GCRA: a debt that drains.
local function bucket_kernel(now, amount)
  local floor, exceeds = math.floor, amount.exceeds
  local MAX_NUMBER, MAX_LIMIT = 9007199254740991, 1099511627776
  local bucket = {}

  -- Limit, window, whole units and rest that are owed, time.
  local function numbers(bytes)
    if bucket.is_small(bytes) then
      local limit, window, at, owed = struct.unpack('<I2I3I7I7', bytes)
      window = window * 1000000
      local whole = owed > MAX_NUMBER and owed or floor(owed / window)
      return limit, window, whole, owed - whole * window, at
    end
    local limit, window, at, whole, rest = struct.unpack('<I6I6I7I7I6', bytes)
    return limit, window, whole, rest, at
  end

  local function body(l, rate, whole, rest, at)
    if l.is_small and rate <= 65535 and (whole + 1) * l.window <= MAX_NUMBER then
      return struct.pack('<I2I3I7I7', rate, l.window / 1000000, at, whole * l.window + rest)
    end
    return struct.pack('<I6I6I7I7I6', rate, l.window, at, whole, rest)
  end

  -- Whether a state is one of a small bucket.
  function bucket.is_small(bytes)
    return #bytes == 19
  end

  -- Whether an entry is a state of the limit.
  function bucket.is_of(l, bytes)
    local limit, window, whole, rest, at = numbers(bytes)
    return window == l.window and limit >= 1 and limit <= MAX_LIMIT and whole <= MAX_NUMBER and rest < window
      and at <= MAX_NUMBER
  end

  function bucket.read(c, bytes)
    local l = c.limit
    c.whole, c.rest, c.rate, c.at = 0, 0, l.limit, now
    if not bytes then
      return
    end
    local limit, _, whole, rest, at = numbers(bytes)
    if c.mode and at - now > l.believed then
      at = now
      c.healed = body(l, limit, whole, rest, at)
    end
    -- A refund lessens what was owed at the last admission, under the limit of that admission: draining is linear, and
    -- the limit that comes with the refund may be an earlier one.
    if not c.mode then
      c.whole, c.rest, c.rate, c.at = whole, rest, limit, at
      return
    end
    if l.limit > limit then
      if rest > 0 then
        whole, rest = whole + 1, 0
      end
    else
      c.rate = limit
    end
    local passed = now - at
    if passed > 0 then
      at = now
      local windows = floor(passed / l.window)
      local gone, gone_rest = amount.proportion(passed - windows * l.window, c.rate, l.window)
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
    if l.room < c.cost then
      return false
    end
    local room, rest = l.room - c.cost, l.room_rest
    if l.is_delaying == 1 and exceeds(room, rest, l.delayed, l.delayed_rest) then
      room, rest = l.delayed, l.delayed_rest
    end
    -- Beside a debt of another rate only whole units count.
    if c.rate ~= l.limit then
      rest = 0
    end
    return not exceeds(c.whole + c.held, c.rest, room, rest)
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

  function bucket.body(c)
    return body(c.limit, c.rate, c.whole, c.rest, c.at)
  end

  function bucket.life(c)
    return (c.whole * c.limit.window + c.rest) / c.rate
  end

  return bucket
end
