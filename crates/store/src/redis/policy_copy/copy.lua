-- Reads and replaces the copy of the policy.
--
-- KEYS[1]   the copy, a hash: `#revision`, `#header`, `#id`, `#chunks` (their number), and the chunks: `id:1`, `id:2`
-- ARGV[1]   what to do
--   read    ARGV[2] the most bytes of a value, ARGV[3..] fields.
--           Reply: their values, nil for a missing one; -1 if one is too long
--   begin   before chunks are written: removes those that other nodes left. ARGV[2..7] as below.
--           Reply: 1, or 0 if the copy there is as new or newer
--   commit  after all chunks are written: makes them the copy, and publishes the revision.
--           ARGV[2] id, ARGV[3..4] epoch and number, in digits without leading zeros, ARGV[5..6] the largest plausible
--           epoch and number, ARGV[7] the header that is replaced whatever its revision, or nothing, ARGV[8] header,
--           ARGV[9] number of chunks, ARGV[10] channel.
--           Reply: as `begin`; -1 if a chunk is missing, since another node began meanwhile

local key, mode = KEYS[1], ARGV[1]

if mode == 'read' then
  local values = {}
  for place = 3, #ARGV do
    if redis.call('HSTRLEN', key, ARGV[place]) > tonumber(ARGV[2]) then
      return -1
    end
    values[place - 2] = redis.call('HGET', key, ARGV[place])
  end
  return values
end

local id, epoch, number = ARGV[2], ARGV[3], ARGV[4]
local max_epoch, max_number, replaced = ARGV[5], ARGV[6], ARGV[7]

-- Compares digits, because numbers of scripts are doubles.
local function is_less(one, other)
  if #one ~= #other then
    return #one < #other
  end
  return one < other
end

-- Whether a revision is implausible. If ours is as well, the clock of this node is wrong.
local function is_beyond(one_epoch, one_number)
  return is_less(max_epoch, one_epoch) or is_less(max_number, one_number)
end

local function may_be_replaced()
  local held, header = redis.call('HGET', key, '#revision'), redis.call('HGET', key, '#header')
  if not held or not header or (replaced ~= '' and header == replaced) then
    return true
  end
  local held_epoch, held_number = string.match(held, '^0*(%d+)%-0*(%d+)$')
  return not held_epoch
    or is_less(held_epoch, epoch)
    or (held_epoch == epoch and is_less(held_number, number))
    or (is_beyond(held_epoch, held_number) and not is_beyond(epoch, number))
end

-- Field by field, because a slot that is being migrated loses a key that is deleted.
local function remove_other_chunks(kept)
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local owner = string.match(field, '^(%x+):%d+$')
    if owner and owner ~= id and owner ~= kept then
      redis.call('HDEL', key, field)
    end
  end
end

if not may_be_replaced() then
  return 0
end
if mode == 'begin' then
  remove_other_chunks(redis.call('HGET', key, '#id'))
  return 1
end

local header, count, channel = ARGV[8], ARGV[9], ARGV[10]
for place = 1, tonumber(count) do
  if redis.call('HSTRLEN', key, id .. ':' .. place) == 0 then
    return -1
  end
end
local revision = epoch .. '-' .. number
-- First, so that a missing permission shows before anything has changed.
redis.call('PUBLISH', channel, revision)
redis.call('HSET', key, '#revision', revision, '#header', header, '#id', id, '#chunks', count)
remove_other_chunks(id)
return 1
