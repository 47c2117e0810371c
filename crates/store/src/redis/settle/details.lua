-- Limits and plans in full, for requests that are not plain.
local function read_details(text, now)
  local byte, unpack_bytes = string.byte, struct.unpack
  local LOG, CALENDAR = 6, 7
  local limits, plans = {}, {}
  local limit_count, plan_count, place = unpack_bytes('<HH', text)
  for i = 1, limit_count do
    local l, kind = {}, nil
    kind, l.limit, l.window, l.room, l.room_rest, l.is_delaying, l.delayed, l.delayed_rest, l.believed, l.most, place =
      unpack_bytes('<BI6I6I7I6BI7I6I7I7', text, place)
    l.algorithm, l.is_small = kind > 8 and kind - 8 or kind, kind > 8
    if l.algorithm == CALENDAR then
      local count, starts
      l.calendar, count, place = unpack_bytes('<I7B', text, place)
      for _ = 1, count do
        local ends
        ends, place = unpack_bytes('<I7', text, place)
        if starts and starts <= now and now < ends then
          l.starts, l.ends = starts, ends
        end
        starts = ends
      end
    end
    limits[i] = l
  end
  for i = 1, plan_count do
    local plan, is_dry_run, count = { logs = 0 }, nil, nil
    is_dry_run, plan.records, count, place = unpack_bytes('<BHH', text, place)
    plan.is_dry_run = is_dry_run == 1
    for j = 1, count do
      local c, limit, low, middle, high = {}, nil, nil, nil, nil
      c.record, limit, c.tag, c.cost, c.mode, place = unpack_bytes('<HHc3I7B', text, place)
      low, middle, high = byte(c.tag, 1, 3)
      c.limit, c.number = limits[limit], low + middle * 256 + high * 65536
      plan[j], plan.logs = c, plan.logs + (c.limit.algorithm == LOG and 1 or 0)
    end
    plans[i] = plan
  end
  return limits, plans
end
