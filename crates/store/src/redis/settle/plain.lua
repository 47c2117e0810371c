-- The requests, in order. Nearly all are plain: they charge buckets and windows, in records that are absent or have all
-- their entries. These are settled right here, without a function: to make one costs more, in every call, than it
-- saves. Everything else is left to `other`, which is made when it is needed.
local other, find_layout
local argument, length = 3, #args
local replies, reply_count = { pack('<I7', now) }, 1
local is_dated_by_caller = is_dated == 1
-- What lasts for some us from now is kept until these are added to this.
local margin = now + (1 + extra) * 1000000
-- What was there before the request at hand: the texts of its records, and until when they are kept.
local old_texts, old_keep = {}, {}

while place <= length do
  local what, number, plan, width, count = byte(args, place), nil, nil, 1, 1
  -- The numbers of the records and logs of requests that share a plan.
  local named
  place = place + 1
  if what == 0 then
    number, count, place = unpack_bytes('<HH', args, place)
    plan = plans[number]
    width = plan.records + plan.logs
    named = { unpack_bytes('<' .. string.rep('H', count * width), args, place) }
    place = named[count * width + 1]
  end
  local is_plan_plain = plan and plan.is_plain
  local record_count, latest = is_plan_plain and plan.records or 0, plan and plan.latest
  for request = 0, count - 1 do
    local is_plain, flags, committed, base = is_plan_plain, nil, 0, request * width
    for k = 1, record_count do
      local r = named[base + k]
      local text, layout, numbers = texts[r], latest[k], nil
      -- Whether its key has to be kept longer than it was.
      local is_longer = is_dated_by_caller
      if not text then
        layout, is_longer = plan.own[k], true
        if not layout.blank then
          layout.blank = { unpack_bytes(layout.form, layout.head .. string.rep('\0', layout.bytes - #layout.head)) }
          layout.blank[2], layout.blank[3] = second + 1, now
        end
        numbers = { unpack(layout.blank) }
      else
        if #text == layout.bytes then
          numbers = { unpack_bytes(layout.form, text) }
        end
        if not numbers or numbers[1] ~= layout.head then
          find_layout = find_layout or layouts(record_format())
          layout = find_layout(plan, k, text)
          if not layout then
            is_plain = false
            break
          end
          latest[k], numbers = layout, { unpack_bytes(layout.form, text) }
        end
      end
      for p = 1, #layout do
        local part = layout[p]
        local at = part.at
        local kept, passed = numbers[at], now - numbers[at + 1]
        -- Entries from the future are not plain, nor are those that have expired.
        if passed < 0 or kept <= expired then
          is_plain = false
          break
        end
        for j = 1, #part, 2 do
          local c, where = part[j], part[j + 1]
          local one, owed, rate, is_over, needed = numbers[where], c.owed, c.rate, nil, nil
          if owed then
            -- A small bucket, in 1/window of a unit. What was owed drains.
            one = one - passed * rate
            if one < 0 then
              one = 0
            end
            is_over = one >= c.bound
            one = one + owed
            if one > (kept * 1000000 - margin) * rate then
              needed = (margin + one / rate) / 1000000
            end
          elseif c.kind == BUCKET then
            -- Any other bucket, in whole units and a rest.
            local window, rest, product = c.window, numbers[where + 1], passed * rate
            if product >= EXACT or one > MAX_NUMBER or rest >= window then
              is_plain = false
              break
            end
            local gone = product / window
            gone = gone - gone % 1
            one, rest = one - gone, rest - (product - gone * window)
            if rest < 0 then
              one, rest = one - 1, rest + window
            end
            if one < 0 then
              one, rest = 0, 0
            end
            is_over = one > c.bound or (one == c.bound and rest >= c.bound_rest)
            one, numbers[where + 1] = one + c.cost, rest
            needed = (margin + (one * window + rest) / rate) / 1000000
          else
            local window, start, previous = c.window, c.start, 0
            local is_sliding = c.kind == SLIDING
            if is_sliding then
              previous = numbers[where + 1]
            end
            if now - passed < start then
              previous = is_sliding and now - passed >= start - window and one or 0
              one = 0
            end
            local used = one
            if previous > 0 then
              -- How much of the previous window is in view, rounded up.
              local product = c.left * previous
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
            is_over = used >= c.bound
            one = one + c.cost
            if is_sliding then
              numbers[where + 1] = previous
            end
            needed = c.kept
          end
          if is_over then
            -- A number that was not written here is not plain.
            if c.mode ~= ENFORCE or numbers[where] > MAX_NUMBER then
              is_plain = false
              break
            end
            flags = flags or {}
            flags[c.index] = '0'
          end
          if needed and needed > kept then
            if c.slack then
              -- It is kept longer than it has to be, so that its key needs another expiry only now and then.
              if needed > longest then
                is_plain = false
                break
              end
              needed = needed + (needed - second) / 4 + c.slack
              needed = needed - needed % 1
            end
            kept, is_longer = needed, true
          end
          numbers[where] = one
        end
        if not is_plain then
          break
        end
        numbers[at], numbers[at + 1] = kept, now
      end
      local others = layout.others
      if others then
        for i = 1, #others do
          -- What has expired is not carried over.
          is_plain = is_plain and numbers[others[i]] > expired
        end
      end
      if not is_plain then
        break
      end
      if not flags then
        local kept, known = 0, keep[r]
        if is_longer then
          for p = 1, #layout do
            local one = numbers[layout[p].at]
            kept = one > kept and one or kept
          end
          for i = 1, others and #others or 0 do
            local one = numbers[others[i]]
            kept = one > kept and one or kept
          end
        end
        if k < record_count then
          old_texts[k], old_keep[k], committed = text, known, k
        end
        text = pack(layout.form, unpack(numbers))
        texts[r] = text
        if not known or kept > known then
          keep[r] = kept
        end
        replies[reply_count + k] = text
      end
    end
    if is_plain and not flags then
      reply_count = reply_count + record_count
    else
      for k = 1, committed do
        local r = named[base + k]
        texts[r], keep[r], replies[reply_count + k] = old_texts[k], old_keep[k], nil
      end
      local said
      if is_plain then
        for i = 1, plan.charges do
          flags[i] = flags[i] or '1'
        end
        said = { '.' .. table.concat(flags) }
        for k = 1, record_count do
          said[k + 1] = texts[named[base + k]] or ''
        end
      else
        other = other or make_other(now, is_dated, extra, texts, keep)
        if what == 0 then
          said = other.charge(number, named, base)
        else
          place, argument, said = other.carry_out(what, place, argument)
        end
      end
      for i = 1, #said do
        replies[reply_count + i] = said[i]
      end
      reply_count = reply_count + #said
    end
  end
end
