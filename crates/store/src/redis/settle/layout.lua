-- Layouts: how a record that a plan charges is read and written, by its heads. A layout is a list of parts, entries of
-- one time that the plan charges:
--   at      where among the numbers is the second until which they are kept, and behind it their time
--   1, 2..  in turn, a charge and where its numbers are
-- and has, beside them:
--   head    the version and all heads
--   form    of head and numbers, for struct
--   bytes   their length
--   others  where among the numbers are the seconds until which entries are kept that the plan does not charge
-- A plan comes with the layout of records that have its entries alone. The layouts of other records are made here.
local function layouts(format)
  local MAX_LAYOUTS, MAX_NUMBERS = 8, 1000

  -- The layout of a record. Nil if an entry that the plan charges is not there, or is not of its limit; if any entry
  -- has flags; if the plan charges some, not all, of the entries that share a time; or if there are too many entries.
  local function make(own, text)
    local heads, place = format.read_heads(text)
    local wanted, i = format.read_heads(own.head), 1
    local together, charged_together = 0, 0
    for j = 1, #heads do
      local h, w = heads[j], wanted[i]
      if h.is_flagged then
        return nil
      end
      if w and h.number == w.number then
        if h.kind ~= w.kind or h.constants ~= w.constants then
          return nil
        end
        h.charge, i = own[1][2 * i - 1], i + 1
      end
      if not h.is_apart then
        together = together + 1
        charged_together = charged_together + (h.charge and 1 or 0)
      end
    end
    if i <= #wanted or (charged_together > 0 and charged_together < together) then
      return nil
    end
    local layout, form, count = { head = string.sub(text, 1, place - 1), others = {} }, '<c' .. place - 1, 1
    -- Adds numbers to the form, and returns where the first of them is.
    local function add(forms, values)
      form, count = form .. forms, count + values
      return count - values + 1
    end
    local shared = charged_together > 0 and { at = add('I4I7', 2) }
    if shared then
      layout[1] = shared
    elseif together > 0 then
      layout.others[1] = add('I4I7', 2)
    end
    for j = 1, #heads do
      local h = heads[j]
      local numbers, part = format.NUMBERS[h.kind], shared
      if h.charge then
        if h.is_apart then
          part = { at = add('I4I7', 2) }
          layout[#layout + 1] = part
        end
        part[#part + 1] = h.charge
        part[#part + 1] = add(numbers, #numbers / 2)
      else
        local unread = format.NUMBER_BYTES[h.kind]
        if h.is_apart then
          layout.others[#layout.others + 1] = add('I4', 1)
          unread = unread + format.TIME_BYTES[h.kind]
        end
        if unread > 0 then
          add('c' .. unread, 1)
        end
      end
    end
    layout.form, layout.bytes = form, struct.size(form)
    return count <= MAX_NUMBERS and layout or nil
  end

  -- The layout of the k-th record of a plan, with this text; nil if it is not plain.
  return function(plan, k, text)
    plan.known = plan.known or {}
    local known = plan.known[k] or { plan.own[k] }
    plan.known[k] = known
    for i = 1, #known do
      local layout = known[i]
      if #text == layout.bytes and string.sub(text, 1, #layout.head) == layout.head then
        return layout
      end
    end
    local layout = make(plan.own[k], text)
    if not layout or #text ~= layout.bytes then
      return nil
    end
    if #known < MAX_LAYOUTS then
      known[#known + 1] = layout
    end
    return layout
  end
end
