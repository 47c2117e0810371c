-- The record of a request that is made once, packed: digest of the body, note, time, and by counter what its charge said
-- and what followed its entry, if it had flags.
local function once_format()
  local MAX_NUMBER = 9007199254740991
  local format = {}

  -- Nil if it is not one.
  function format.unpack(packed)
    local is_read, once = pcall(cmsgpack.unpack, packed)
    if is_read and type(once) == 'table' and type(once.body) == 'string' and type(once.note) == 'string'
      and type(once.said) == 'table' and type(once.at) == 'string' and string.match(once.at, '^%d+$')
      and tonumber(once.at) <= MAX_NUMBER then
      return once
    end
    return nil
  end

  -- What followed the entry of a counter: held units are among its figures. Empty if nothing did, or if it is not valid.
  function format.tail(once, name)
    local tail = type(once.tails) == 'table' and once.tails[name]
    return type(tail) == 'string' and string.byte(tail) == #tail - 1 and tail or ''
  end

  return format
end
