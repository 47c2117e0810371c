-- Writes the number of the store if it has none that can be read, and returns the one that is there then.
-- KEYS: the number. ARGV: a new number.
local found = redis.pcall('GETRANGE', KEYS[1], 0, 16)
-- A value of another type counts as absent.
if type(found) ~= 'string' then
  found = ''
end
if #found == 16 and string.match(found, '^%x+$') and string.match(found, '[^0]') then
  return found
end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
