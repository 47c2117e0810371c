-- Fixed window and sliding window counter: counts by window since the epoch.
local function window_kernel(now, amount, is_sliding)
  local floor = math.floor
  local MAX_NUMBER, MAX_SMALL_COUNT = 9007199254740991, 4294967295
  local window = {}

  -- Window, count, previous count, time.
  local function numbers(bytes)
    local is_small, form = window.is_small(bytes), nil
    if is_sliding then
      form = is_small and '<I3I7I4I4' or '<I6I7I6I6'
    else
      form = is_small and '<I3I7I4' or '<I6I7I6'
    end
    local length, at, current, previous = struct.unpack(form, bytes)
    return is_small and length * 1000000 or length, current, is_sliding and previous or 0, at
  end

  local function body(l, current, previous, at)
    local is_small = l.is_small and current <= MAX_SMALL_COUNT and previous <= MAX_SMALL_COUNT
    local length = is_small and l.window / 1000000 or l.window
    if is_sliding then
      return struct.pack(is_small and '<I3I7I4I4' or '<I6I7I6I6', length, at, current, previous)
    end
    return struct.pack(is_small and '<I3I7I4' or '<I6I7I6', length, at, current)
  end

  -- Whether a state is one of a small window.
  function window.is_small(bytes)
    return #bytes == (is_sliding and 18 or 14)
  end

  -- Whether an entry is a state of the limit.
  function window.is_of(l, bytes)
    local length, _, _, at = numbers(bytes)
    return length == l.window and at <= MAX_NUMBER
  end

  function window.read(c, bytes)
    local length = c.limit.window
    c.current, c.previous, c.at = 0, 0, now
    if not bytes then
      return
    end
    local _, current, previous, at = numbers(bytes)
    if c.mode and at - now > c.limit.believed then
      at = now
      c.healed = body(c.limit, current, previous, at)
    end
    local since_start = at - floor(at / length) * length
    if now > at then
      since_start = since_start + now - at
      at = now
    end
    if since_start >= 2 * length then
      current, previous = 0, 0
    elseif since_start >= length then
      current, previous = 0, is_sliding and current or 0
    end
    c.current, c.previous, c.at = current, previous, at
  end

  function window.fits(c)
    local length = c.limit.window
    local used = c.current + c.cost + c.held
    if c.previous > 0 then
      local passed = c.at - floor(c.at / length) * length
      local in_view, rest = amount.proportion(length - passed, c.previous, length)
      used = used + in_view
      if rest > 0 then
        used = used + 1
      end
    end
    return used <= c.limit.room
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

  function window.body(c)
    return body(c.limit, c.current, c.previous, c.at)
  end

  function window.life(c)
    local length = c.limit.window
    local left = length - (c.at - floor(c.at / length) * length)
    return is_sliding and left + length or left
  end

  return window
end

-- Fixed window of the calendar: the count of the window that contains `at`. The window of now is the one that the
-- caller sent for it; the caller's clock need not agree with this server's on which one that is.
local function calendar_kernel(now, window)
  local calendar = { fits = window.fits, take = window.take }

  -- Whether an entry is a state of the limit.
  function calendar.is_of(l, bytes)
    local length, id, at = struct.unpack('<I6I7I7', bytes)
    return length == l.window and id == l.calendar and at <= 9007199254740991
  end

  function calendar.body(c)
    return struct.pack('<I6I7I7I7I6', c.limit.window, c.limit.calendar, c.at, c.starts, c.current)
  end

  function calendar.read(c, bytes)
    local l = c.limit
    if not l.starts then
      error({ err = 'CLOCK the clocks of the caller and of this server are more than two windows apart' })
    end
    c.starts, c.current, c.previous, c.at = l.starts, 0, 0, now
    if not bytes then
      return
    end
    local _, _, at, starts, current = struct.unpack('<I6I7I7I7I6', bytes)
    c.current, c.at = current, at
    if c.mode and at - now > l.believed then
      c.at = now
      c.healed = calendar.body(c)
    elseif at < now then
      c.at = now
      if at < l.starts then
        c.current = 0
      end
    elseif at >= l.ends then
      c.starts = starts
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

  return calendar
end
