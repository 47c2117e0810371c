-- Requests that are not plain: any algorithm, records in any condition, dry runs, debits, refunds, resets, and what is
-- made once. Made when the first of them comes, and only then are all numbers of limits and plans read.
local function make_other(now, is_dated, extra, texts, keep)
  local byte, sub, pack, unpack_bytes = string.byte, string.sub, struct.pack, struct.unpack
  local ceil, format, match = math.ceil, string.format, string.match
  local call, args = redis.call, ARGV[1]
  local ENFORCE, DEBIT = 0, 2
  local LOG, CALENDAR = 6, 7
  local MAX_NUMBER, LONGEST_MS = 9007199254740991, 315360000000
  local MAX_MARK, MAX_ONCE = 128, 262144
  local second = (now - now % 1000000) / 1000000
  local expired = is_dated == 1 and -1 or second
  local record, once_record = record_format(), once_format()
  local amount = amounts()
  local bucket, log = bucket_kernel(now, amount), log_kernel(now)
  local fixed = window_kernel(now, amount, false)
  local kernels = {
    bucket, bucket, bucket, fixed, window_kernel(now, amount, true), log, calendar_kernel(now, fixed),
  }

  local limits, plans = read_details(ARGV[2], now)

  local function algorithm_of(kind)
    return kind > 8 and kind - 8 or kind
  end

  -- The kind of an entry with this state.
  local function kind_of(c, body)
    return c.kernel.is_small and c.kernel.is_small(body) and c.limit.algorithm + 8 or c.limit.algorithm
  end

  -- A string of the server, or nil if there is none or it is longer than `most`. Of one that is too long, little is
  -- read. A key of another type counts as absent; any other error is an error.
  local function read_string(key, most)
    local found = redis.pcall('GETRANGE', key, 0, most)
    if type(found) == 'string' then
      return #found > 0 and #found <= most and found or nil
    end
    if type(found) == 'table' and found.err and not match(found.err, '^WRONGTYPE') then
      error(found)
    end
    return nil
  end

  -- The records of the request at hand: their entries by tag, and whether they were changed.
  local opened = {}

  local function open(r)
    if not opened[r] then
      if texts[r] and record.is_later(texts[r]) then
        error({ err = 'LATER a later version wrote the record, which is left as it is' })
      end
      local entries = texts[r] and record.read(texts[r]) or {}
      for number, e in pairs(entries) do
        if e.kept <= expired then
          entries[number] = nil
        end
      end
      opened[r] = { entries = entries }
    end
    return opened[r]
  end

  -- The changes of the request at hand become those of the call.
  local function close()
    for r, o in pairs(opened) do
      if o.is_changed then
        local numbers, entries = {}, {}
        for number in pairs(o.entries) do
          numbers[#numbers + 1] = number
        end
        table.sort(numbers)
        for i = 1, #numbers do
          entries[i] = o.entries[numbers[i]]
        end
        local text, kept = record.write(entries)
        texts[r] = #entries > 0 and text
        keep[r] = kept > (keep[r] or 0) and kept or keep[r] or 0
      end
    end
  end

  -- Reads the counter of a charge or a refund.
  local function read(c)
    local l, e = c.limit, open(c.record).entries[c.number]
    c.entry = e
    c.held = e and #e.tail >= 8 and byte(e.tail, 2) % 2 == 1 and unpack_bytes('<I6', e.tail, 3) or 0
    local is_of = e and algorithm_of(e.kind) == l.algorithm and c.kernel.is_of(l, e.body)
    c.state = is_of and e.body
    c.kernel.read(c, c.state)
  end

  -- Writes the counter of a charge or a refund.
  local function enter(c, body)
    local e, o = c.entry, open(c.record)
    local life = c.kernel.life(c) + c.at - now
    local ms = ceil((life > 0 and life or 0) / 1000) + extra * 1000
    ms = ms < LONGEST_MS and ms or LONGEST_MS
    local kept = second + 1 + ceil(ms / 1000)
    if c.limit.algorithm == LOG then
      call('PEXPIRE', c.key, format('%.0f', ms))
      if c.state and e.kept >= kept and c.state == body then
        return
      end
      kept = kept + ceil(ms / 4000)
    end
    if e and (e.tail ~= '' or c.limit.algorithm == LOG) and e.kept > kept then
      kept = e.kept
    end
    c.entry = {
      kept = kept, tag = c.tag, number = c.number, kind = kind_of(c, body), body = body, tail = e and e.tail or '',
    }
    c.state = body
    o.entries[c.number], o.is_changed = c.entry, true
  end

  local function settle(charges, is_dry_run)
    local passed = not is_dry_run
    for i = 1, #charges do
      local c = charges[i]
      local l = c.limit
      if l.limit > 0 then
        read(c)
      end
      c.fits = c.mode == DEBIT or c.cost == 0 or (l.limit > 0 and c.kernel.fits(c))
      if not c.fits and c.mode == ENFORCE then
        passed = false
      end
    end
    -- Logs first: they are written at once, which may fail, and then nothing else has been charged.
    for _, is_log in ipairs({ true, false }) do
      for i = 1, #charges do
        local c = charges[i]
        local l = c.limit
        if (l.algorithm == LOG) == is_log then
          local is_taken = c.cost > 0 and l.limit > 0 and not is_dry_run and (c.mode == DEBIT or (passed and c.fits))
          if is_taken then
            c.kernel.take(c, c.mode == DEBIT and l.most or MAX_NUMBER)
          end
          if is_taken or c.healed then
            c.written = true
            enter(c, (is_taken or is_log) and c.kernel.body(c) or c.healed)
          end
        end
      end
    end
    return passed
  end

  local function refund(refunds)
    for i = 1, #refunds do
      local c = refunds[i]
      if c.limit.limit > 0 and c.cost > 0 then
        read(c)
        if c.state and not c.is_new then
          c.kernel.refund(c)
          enter(c, c.kernel.body(c))
        end
      end
    end
  end

  -- The figures of logs, which later requests change.
  local function figures(charges)
    for i = 1, #charges do
      local c = charges[i]
      if c.limit.algorithm == LOG and c.limit.limit > 0 then
        c.figures = log.figures(c)
      end
    end
  end

  -- The results of charges, as they are in the reply.
  local function results(charges, plan)
    local said = { '.' }
    for i = 1, #charges do
      local c = charges[i]
      said[1] = said[1] .. (c.fits and (c.written and '3' or '1') or (c.written and '2' or '0'))
    end
    for k = 1, plan.records do
      said[#said + 1] = texts[charges.records[k]] or ''
    end
    for i = 1, #charges do
      local c = charges[i]
      if c.limit.algorithm == LOG then
        said[#said + 1] = c.figures or ''
      end
    end
    return said
  end

  -- The charges of a request, from its plan and the numbers of its records and logs, after the first `base` of a list.
  local function charges_of(plan, named, base)
    local charges, logs = { records = {} }, 0
    for k = 1, plan.records do
      charges.records[k] = named[base + k]
    end
    for i = 1, #plan do
      local p = plan[i]
      local c = {
        limit = p.limit, kernel = kernels[p.limit.algorithm], tag = p.tag, number = p.number, cost = p.cost,
        mode = p.mode, record = charges.records[p.record],
      }
      if p.limit.algorithm == LOG then
        logs = logs + 1
        c.key = KEYS[named[base + plan.records + logs]]
      end
      charges[i] = c
    end
    return charges
  end

  -- Refunds at `place`: how many, and each.
  local function refunds_of(place, is_once)
    local refunds, count = {}, nil
    count, place = unpack_bytes('<H', args, place)
    for i = 1, count do
      local c, limit, is_tied, low, middle, high = {}, nil, nil, nil, nil, nil
      c.record, limit, c.tag, c.cost, is_tied, c.charged_at, c.slack, place =
        unpack_bytes('<HHc3I7BI7I4', args, place)
      low, middle, high = byte(c.tag, 1, 3)
      c.limit, c.number = limits[limit], low + middle * 256 + high * 65536
      c.kernel = kernels[c.limit.algorithm]
      c.charged_at = is_tied == 1 and c.charged_at or -1
      if c.limit.algorithm == LOG then
        local key
        key, place = unpack_bytes('<H', args, place)
        c.key = KEYS[key]
      elseif c.limit.algorithm == CALENDAR then
        c.charged_from, c.charged_to, place = unpack_bytes('<I7I7', args, place)
      end
      if is_once then
        c.ends_at, place = unpack_bytes('<I7', args, place)
      end
      refunds[i] = c
    end
    return refunds, place
  end

  -- Refunds charges that have not ended, unless their mark is there. The mark is written first: if that fails, nothing
  -- was refunded, and whatever fails later, nothing is refunded twice.
  local function refund_once(refunds, key, content)
    local lasting, longest = {}, 0
    for i = 1, #refunds do
      local left = refunds[i].ends_at - now
      if left > 0 then
        lasting[#lasting + 1] = refunds[i]
        longest = left > longest and left or longest
      end
    end
    local found = read_string(key, MAX_MARK)
    if found and found ~= content then
      return '='
    end
    if #lasting == 0 then
      return '-'
    end
    if not found then
      local ms = ceil(longest / 1000) + extra * 1000
      call('SET', key, content, 'PX', format('%.0f', ms < LONGEST_MS and ms or LONGEST_MS))
      refund(lasting)
    end
    return '+' .. #lasting
  end

  -- Forgets what was used, never what is held.
  local function reset(r, number, key)
    local o = open(r)
    local e = o.entries[number]
    if e then
      o.is_changed = true
      if e.tail ~= '' then
        e.kind, e.body = 0, ''
      else
        o.entries[number] = nil
      end
    end
    call('UNLINK', key)
  end

  -- The result of a charge as it is kept: fitted and written, then figures of a log, or kind and state.
  local function said_of(c)
    local flags = (c.fits and 1 or 0) + (c.written and 2 or 0)
    if c.limit.algorithm == LOG then
      return flags .. (c.figures or '')
    end
    return flags .. (c.state and string.char(kind_of(c, c.state)) .. c.state or '')
  end

  -- Sets the result of a charge to one that was kept. Returns whether it is one.
  local function repeat_result(c, said)
    local flags = type(said) == 'string' and match(said, '^[0-3]')
    if not flags then
      return false
    end
    local l, bytes = c.limit, sub(said, 2)
    if l.algorithm == LOG then
      if #bytes ~= 28 and #bytes ~= 0 then
        return false
      end
      c.figures = bytes
    elseif bytes ~= '' then
      local kind, body = byte(bytes), sub(bytes, 2)
      if algorithm_of(kind) ~= l.algorithm or #body ~= record.body_bytes(kind) or not c.kernel.is_of(l, body) then
        return false
      end
      c.said = body
    end
    c.fits, c.written = flags == '1' or flags == '3', flags == '2' or flags == '3'
    return true
  end

  -- Charges a request once. Its record is written before the records of its counters: if that fails, nothing was
  -- charged but logs, and after these nothing fails.
  local function settle_once(charges, plan, key, life, body, note)
    local found = read_string(key, MAX_ONCE)
    local once = found and once_record.unpack(found)
    if not once then
      local passed = settle(charges, plan.is_dry_run)
      figures(charges)
      if passed then
        once = { body = body, note = note, at = format('%.0f', now), said = {} }
        for i = 1, #charges do
          local c = charges[i]
          local name = KEYS[c.record] .. c.tag
          once.said[name] = said_of(c)
          if c.entry and c.entry.tail ~= '' then
            once.tails = once.tails or {}
            once.tails[name] = c.entry.tail
          end
        end
        call('SET', key, cmsgpack.pack(once), 'PX', format('%.0f', life))
      end
      close()
      return results(charges, plan)
    end
    if once.body ~= body then
      return { '?' }
    end
    local copies = {}
    for i = 1, #charges do
      local c = charges[i]
      local name = KEYS[c.record] .. c.tag
      local tail = once_record.tail(once, name)
      -- A limit that did not exist then is read now.
      if not repeat_result(c, once.said[name]) then
        c.cost = 0
        settle({ c }, false)
        figures({ c })
        c.said, tail = c.state, c.entry and c.entry.tail or ''
      end
      local copy = copies[c.record] or {}
      copies[c.record] = copy
      if c.said and c.limit.algorithm ~= LOG then
        copy[#copy + 1] = { kept = 0, tag = c.tag, kind = kind_of(c, c.said), body = c.said, tail = tail }
      elseif tail ~= '' then
        copy[#copy + 1] = { kept = 0, tag = c.tag, kind = 0, body = '', tail = tail }
      end
    end
    close()
    local said = results(charges, plan)
    for k = 1, plan.records do
      said[k + 1] = record.write(copies[charges.records[k]])
    end
    table.insert(said, 1, '=' .. pack('<I7', tonumber(once.at)) .. once.note)
    return said
  end

  -- Reads the request whose numbers are at `at`. Returns where the next one is, and what to do.
  local function carry_out(what, at, texts_at)
    if what == 4 then
      local number, key, life
      number, at = unpack_bytes('<H', args, at)
      local plan = plans[number]
      local named = { unpack_bytes('<' .. string.rep('H', plan.records + plan.logs), args, at) }
      key, life, at = unpack_bytes('<HI6', args, named[#named])
      return at, texts_at + 2, function()
        return settle_once(charges_of(plan, named, 0), plan, KEYS[key], life, ARGV[texts_at], ARGV[texts_at + 1])
      end
    elseif what == 3 then
      local count
      count, at = unpack_bytes('<H', args, at)
      local first = at
      return at + 7 * count, texts_at, function()
        for i = 0, count - 1 do
          local r, low, middle, high, key = unpack_bytes('<HBBBH', args, first + 7 * i)
          reset(r, low + middle * 256 + high * 65536, KEYS[key])
        end
        close()
        return { '+' }
      end
    end
    local refunds, key
    refunds, at = refunds_of(at, what == 2)
    if what == 1 then
      return at, texts_at, function()
        refund(refunds)
        close()
        return { '+' }
      end
    end
    key, at = unpack_bytes('<H', args, at)
    return at, texts_at + 1, function()
      local verdict = refund_once(refunds, KEYS[key], ARGV[texts_at])
      close()
      return { verdict }
    end
  end

  -- What a request says, or why it could not be carried out.
  local function attempt(deed)
    opened = {}
    local is_done, said = pcall(deed)
    if not is_done then
      said = { '!' .. (type(said) == 'table' and said.err or tostring(said)) }
    end
    return said
  end

  return {
    -- Settles a request by the number of its plan, and those of its records and logs.
    charge = function(number, named, base)
      return attempt(function()
        local plan = plans[number]
        local charges = charges_of(plan, named, base)
        settle(charges, plan.is_dry_run)
        figures(charges)
        close()
        return results(charges, plan)
      end)
    end,
    -- Carries out any other request, whose numbers are at `at`. Returns where the next one is, and what it says.
    carry_out = function(what, at, texts_at)
      local deed
      at, texts_at, deed = carry_out(what, at, texts_at)
      return at, texts_at, attempt(deed)
    end,
  }
end
