-- The plans: what requests charge. Requests with the same rules, costs and limits share one.
local plans = {}
for i = 1, plan_count do
  local plan = { is_plain = true, logs = 0, first = {}, last = {} }
  plan.is_dry_run, plan.records, plan.charges, place = unpack_bytes('<BHH', args, place)
  plan.is_dry_run = plan.is_dry_run == 1
  for j = 1, plan.charges do
    local c = {}
    local number, tag
    c.record, number, tag, c.cost, c.mode, place = unpack_bytes('<HHc3I7B', args, place)
    local l = limits[number]
    local low, middle, high = byte(tag, 1, 3)
    c.limit, c.tag, c.number = l, tag, low + middle * 256 + high * 65536
    c.algorithm, c.window, c.rate = l.algorithm, l.window, l.limit
    c.form, c.bytes = FORMS[l.kind], ENTRY_BYTES[l.kind]
    if l.algorithm == LOG then
      plan.logs = plan.logs + 1
    end
    plan.first[c.record] = plan.first[c.record] or j
    plan.last[c.record] = j
    if l.algorithm >= LOG or l.limit == 0 or c.cost == 0 or c.mode == DEBIT then
      plan.is_plain = false
    elseif l.algorithm <= GCRA then
      -- The largest debt that the cost fits beside.
      local most, rest = l.room - c.cost, l.room_rest
      if l.is_delaying == 1 and (most > l.delayed or (most == l.delayed and rest > l.delayed_rest)) then
        most, rest = l.delayed, l.delayed_rest
      end
      c.most, c.most_rest = l.room < c.cost and -1 or most, rest
      c.slack = l.window < 240000000 and 4 + l.window / 4000000 or 64
      if l.is_small then
        c.head = tag .. pack('<BI2I3', l.kind, l.limit, l.window / 1000000)
      else
        c.head = tag .. pack('<BI6I6', l.kind, l.limit, l.window)
      end
    else
      c.head, c.most_rest = tag .. pack('<BI6', l.algorithm, l.window), MAX_NUMBER
      c.most = l.room - c.cost
      c.passed = now % l.window
      c.start = now - c.passed
      local ends = c.start + (l.algorithm == SLIDING and 2 or 1) * l.window
      c.kept = (ends - ends % 1000000) / 1000000 + 1 + extra
    end
    plan[j] = c
  end
  plan.is_plain = plan.is_plain and not plan.is_dry_run
  plans[i] = plan
end
