-- The plans: what requests charge. Requests with the same rules, costs and limits share one.
local plans = {}
for n = 1, plan_count do
  local is_plain, record_count, log_count
  is_plain, record_count, log_count, place = unpack_bytes('<BHH', args, place)
  -- Of a plain plan, for each record: the layout of one that has its entries alone, and of the one met last.
  local plan = {
    is_plain = is_plain == 1, records = record_count, logs = log_count, own = {}, latest = {}, charges = 0, known = nil,
  }
  for k = 1, is_plain == 1 and record_count or 0 do
    local head, form, bytes, count
    head, form, bytes, count, place = unpack_bytes('<Hc0Hc0HH', args, place)
    local part = { at = 2 }
    local where = 4
    for i = 1, count do
      local kind, mode, rate, window, cost, bound, bound_rest, slack
      kind, mode, rate, window, cost, bound, bound_rest, slack, place = unpack_bytes('<BBI6I6I7I7I6B', args, place)
      local start, left, kept, owed = nil, nil, nil, nil
      if kind == SMALL_BUCKET then
        owed = cost
      elseif kind >= FIXED then
        local passed = now % window
        start, left, slack = now - passed, window - passed, nil
        local ends = start + (kind == SLIDING and 2 or 1) * window
        kept = (ends - ends % 1000000) / 1000000 + 1 + extra
      end
      part[2 * i - 1] = {
        index = plan.charges + i, kind = kind, mode = mode, rate = rate, window = window, cost = cost, owed = owed,
        bound = bound, bound_rest = bound_rest, slack = slack, start = start, left = left, kept = kept,
      }
      part[2 * i] = where
      where = where + ((kind == BUCKET or kind == SLIDING) and 2 or 1)
    end
    plan.charges = plan.charges + count
    local own = { part, head = head, form = form, bytes = bytes, others = nil, blank = nil }
    plan.own[k], plan.latest[k] = own, own
  end
  plans[n] = plan
end
