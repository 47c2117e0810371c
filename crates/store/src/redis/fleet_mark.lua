-- Leaves the mark of a fleet in the store if there is none, and returns the mark that is there then, empty if it may not.
-- KEYS: the mark. ARGV: our mark, how long it lasts in milliseconds (0: forever), the mark of our previous secret (empty if we
-- have none), how long that one lasts once no node renews it, and 1 if it may leave a mark where there is none.
local found = redis.pcall('GETRANGE', KEYS[1], 0, 128)
-- A value of another type counts as absent.
if type(found) ~= 'string' then
  found = ''
end
if found == '' and ARGV[5] ~= '1' then
  return ''
end
if found == '' or found == ARGV[1] then
  if ARGV[2] == '0' then
    redis.call('SET', KEYS[1], ARGV[1])
  else
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  end
  return ARGV[1]
end
if found == ARGV[3] then
  local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[4], 'NX')
  -- Redis 6.2 does not know NX here.
  if type(set) == 'table' and set.err and redis.call('PTTL', KEYS[1]) == -1 then
    redis.call('PEXPIRE', KEYS[1], ARGV[4])
  end
end
return found
