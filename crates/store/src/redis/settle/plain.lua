-- The requests, in order. Nearly all are plain: they charge buckets and windows, in records that are absent or have all
-- their entries. These are settled right here, without a function: to make one costs more, in every call, than it
-- saves. Everything else is left to `other`, which is made when it is needed.
local other
local argument, length = 2, #args
local replies, reply_count = { pack('<I7', now) }, 1
-- Of the request at hand: the numbers of its records, their new texts, and until when these are kept if that changes.
local named, news, longer = {}, {}, {}

while place <= length do
  local what, plan_low, plan_high, low, high = byte(args, place, place + 4)
  local plan = what == 0 and plans[plan_low + plan_high * 256]
  local is_plain, flags = plan and plan.is_plain, nil
  local count = is_plain and plan.records or 0
  for k = 1, count do
    if k > 1 then
      low, high = byte(args, place + 1 + 2 * k, place + 2 + 2 * k)
    end
    local r = low + high * 256
    local text, offset, new, latest = texts[r], 2, VERSION, 0
    local is_longer = not text or is_dated == 1
    named[k] = r
    if text and byte(text) ~= 1 then
      is_plain = false
      break
    end
    for i = plan.first[k], plan.last[k] do
      local c = plan[i]
      local algorithm, bytes = c.algorithm, c.bytes
      local kept, one, other_one, from = 0, 0, 0, offset
      if text then
        -- Entries of rules that this request does not charge are passed over, unless they have expired.
        local head, at
        repeat
          if #text - offset < bytes - 1 then
            is_plain = false
            break
          end
          kept, head, one, other_one, at = unpack_bytes(c.form, text, offset)
          if head ~= c.head then
            local tag_low, tag_middle, tag_high, kind = byte(text, offset + 4, offset + 7)
            local passed_over = ENTRY_BYTES[kind]
            is_plain = passed_over and kept > expired
              and tag_low + tag_middle * 256 + tag_high * 65536 < c.number
            offset = offset + (passed_over or 0)
            if kept > latest then
              latest = kept
            end
          end
        until not is_plain or head == c.head
        if algorithm == FIXED then
          other_one, at = 0, other_one
        end
        local passed = is_plain and now - at or -1
        -- An entry from the future is not plain, nor is one that was not written here, or has expired.
        if passed < 0 or kept <= expired or one > MAX_NUMBER or (algorithm <= GCRA and other_one >= c.window) then
          is_plain = false
          break
        end
        if algorithm > GCRA then
          if at < c.start then
            other_one = algorithm == SLIDING and at >= c.start - c.window and one or 0
            one = 0
          end
        elseif passed > 0 then
          -- What was owed drains.
          local window, product = c.window, passed * c.rate
          if product >= EXACT then
            is_plain = false
            break
          end
          local gone = product / window
          gone = gone - gone % 1
          local rest = product - gone * window
          if rest < 0 then
            gone, rest = gone - 1, rest + window
          end
          one, other_one = one - gone, other_one - rest
          if other_one < 0 then
            one, other_one = one - 1, other_one + window
          end
          if one < 0 then
            one, other_one = 0, 0
          end
        end
      end
      local used, most = one, c.most
      if algorithm > GCRA and other_one > 0 then
        -- How much of the previous window is in view, rounded up.
        local window, product = c.window, (c.window - c.passed) * other_one
        if product >= EXACT then
          is_plain = false
          break
        end
        local in_view = product / window
        in_view = in_view - in_view % 1
        used = used + in_view
        if product > in_view * window then
          used = used + 1
        end
      end
      if used > most or (used == most and other_one > c.most_rest) then
        if c.mode ~= ENFORCE then
          is_plain = false
          break
        end
        flags = flags or {}
        flags[i] = '0'
      elseif not flags then
        one = one + c.cost
        local until_second = c.kept
        if algorithm <= GCRA then
          -- It is kept longer than it has to be, so that its key needs another expiry only now and then.
          local life = (one * c.window + other_one) / c.rate
          if life > LONGEST then
            is_plain = false
            break
          end
          until_second = (now + life) / 1000000 + 1 + extra
          if until_second > kept then
            until_second = until_second + life / 4000000 + c.slack
            until_second = until_second - until_second % 1
          end
        end
        if until_second > kept then
          kept, is_longer = until_second, true
        end
        if kept > latest then
          latest = kept
        end
        if from < offset then
          new = new .. sub(text, from, offset - 1)
        end
        if algorithm == FIXED then
          new = new .. pack(c.form, kept, c.head, one, now)
        else
          new = new .. pack(c.form, kept, c.head, one, other_one, now)
        end
      end
      offset = offset + bytes
    end
    if not is_plain then
      break
    end
    if not flags then
      if text and offset <= #text then
        new = new .. sub(text, offset)
      end
      while is_longer and text and is_plain and offset <= #text do
        local _, _, _, _, _, _, _, kind = byte(text, offset, offset + 7)
        local bytes = ENTRY_BYTES[kind]
        local kept = bytes and unpack_bytes('<I4', text, offset) or 0
        is_plain = kept > expired and #text - offset >= bytes - 1
        offset = offset + (bytes or 0)
        if kept > latest then
          latest = kept
        end
      end
      if not is_plain then
        break
      end
      news[k], longer[k] = new, is_longer and latest or 0
    end
  end
  if is_plain then
    place = place + 3 + 2 * count
    if flags then
      for i = 1, plan.charges do
        flags[i] = flags[i] or '1'
      end
      reply_count = reply_count + 1
      replies[reply_count] = '.' .. table.concat(flags)
    end
    for k = 1, count do
      local r = named[k]
      if not flags then
        texts[r] = news[k]
        local kept = keep[r]
        if not kept or longer[k] > kept then
          keep[r] = longer[k]
        end
      end
      reply_count = reply_count + 1
      replies[reply_count] = texts[r] or ''
    end
  else
    local said
    other = other or make_other()
    place, argument, said = other(what, place + 1, argument)
    for i = 1, #said do
      replies[reply_count + i] = said[i]
    end
    reply_count = reply_count + #said
  end
end
