-- Fixed window and sliding window counter: counts by window since the epoch.
local function window_kernel(now, amount, form)
  local floor = math.floor
  local MAX_NUMBER = 9007199254740991
  local window = {}

  local function numbers(bytes)
    local length, current, previous, at = struct.unpack(form, bytes)
    if form == '<I6I6I7' then
      previous, at = 0, previous
    end
    return length, current, previous, at
  end

  local function body(length, current, previous, at)
    if form == '<I6I6I7' then
      return struct.pack(form, length, current, at)
    end
    return struct.pack(form, length, current, previous, at)
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
      c.healed = body(length, current, previous, at)
    end
    local since_start = at - floor(at / length) * length
    if now > at then
      since_start = since_start + now - at
      at = now
    end
    if since_start >= 2 * length then
      current, previous = 0, 0
    elseif since_start >= length then
      current, previous = 0, form == '<I6I6I7' and 0 or current
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
    return body(c.limit.window, c.current, c.previous, c.at)
  end

  function window.life(c)
    local length = c.limit.window
    local left = length - (c.at - floor(c.at / length) * length)
    return form == '<I6I6I7' and left or left + length
  end

  return window
end

-- Fixed window of the calendar: the count of the window that contains `at`. The window of now is the one that the
-- caller sent for it; the caller's clock need not agree with this server's on which one that is.
local function calendar_kernel(now, window)
  local calendar = { fits = window.fits, take = window.take }

  -- Whether an entry is a state of the limit.
  function calendar.is_of(l, bytes)
    local length, id, _, _, at = struct.unpack('<I6I7I7I6I7', bytes)
    return length == l.window and id == l.calendar and at <= 9007199254740991
  end

  function calendar.body(c)
    return struct.pack('<I6I7I7I6I7', c.limit.window, c.limit.calendar, c.starts, c.current, c.at)
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
    local _, _, starts, current, at = struct.unpack('<I6I7I7I6I7', bytes)
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
