-- Looks for the record of a request with an idempotency key, and forgets it if it should. Returns whether it was there.
-- KEYS: the record. ARGV: the first word of its note, 1 to forget it.
local MAX_RECORD = 262144
local found = redis.pcall('GETRANGE', KEYS[1], 0, MAX_RECORD)
if type(found) ~= 'string' then
  -- Another program wrote something else there.
  return found.err and string.match(found.err, '^WRONGTYPE') and 0 or found
end
if found == '' or #found > MAX_RECORD then
  return 0
end
local is_read, record = pcall(cmsgpack.unpack, found)
if not is_read or type(record) ~= 'table' or type(record.note) ~= 'string' then
  return 0
end
-- The note is the last row. Those before it are the results of other slots.
local row = string.match(record.note, '[^\n]*$')
if string.match(row, '^[^ ]*') ~= ARGV[1] then
  return 0
end
if ARGV[2] == '1' then
  redis.call('UNLINK', KEYS[1])
end
return 1
