-- When nodes that keep records first met this server, in microseconds; 0 if it was empty then, so that it has no
-- counters of earlier versions. KEYS: where that is noted.
local found = redis.pcall('GETRANGE', KEYS[1], 0, 16)
-- A value of another type counts as absent.
if type(found) ~= 'string' then
  found = ''
end
if string.match(found, '^%d+$') then
  return found
end
local size = redis.pcall('DBSIZE')
local time = redis.call('TIME')
-- A user that may not ask for the size finds a server that may have some.
local met = size == 0 and '0' or string.format('%.0f', time[1] * 1000000 + time[2])
redis.call('SET', KEYS[1], met)
return met
