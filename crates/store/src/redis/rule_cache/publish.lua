-- Replaces the rules by a newer revision, and publishes it.
--
-- KEYS[1]     the rules, a hash
-- ARGV[1..2]  epoch and number of the new revision, in digits without leading zeros
-- ARGV[3]     the channel
-- ARGV[4..5]  the largest plausible epoch and number
-- ARGV[6..]   the other fields and their values, alternating
-- reply       1 if it was published, 0 if the rules there are as new or newer, -1 if the hash has no
--             valid revision

-- As many fields and values as one call takes.
local CHUNK = 2000

local key, epoch, number, channel = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local max_epoch, max_number = ARGV[4], ARGV[5]

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

local held = redis.call('HGET', key, '#revision')
if held then
  local held_epoch, held_number = string.match(held, '^0*(%d+)%-0*(%d+)$')
  if not held_epoch then
    return -1
  end
  local is_older = is_less(held_epoch, epoch)
    or (held_epoch == epoch and is_less(held_number, number))
    or (is_beyond(held_epoch, held_number) and not is_beyond(epoch, number))
  if not is_older then
    return 0
  end
elseif redis.call('EXISTS', key) == 1 then
  return -1
end

-- Scripts are not rolled back, so a missing permission has to show before anything has changed: messages are sent at
-- the end, and no field has this name. Once a script has begun to delete, a full server lets it write.
local revision = epoch .. '-' .. number
local fields = redis.call('HKEYS', key)
redis.call('PUBLISH', channel, revision)
redis.call('HDEL', key, '#')

redis.call('HSET', key, '#revision', revision)
local is_new = { ['#revision'] = true }
for first = 6, #ARGV, CHUNK do
  local last = math.min(first + CHUNK - 1, #ARGV)
  redis.call('HSET', key, unpack(ARGV, first, last))
  for place = first, last, 2 do
    is_new[ARGV[place]] = true
  end
end

-- Field by field, because a slot that is being migrated loses a key that is deleted.
for _, field in ipairs(fields) do
  if not is_new[field] then
    redis.call('HDEL', key, field)
  end
end
return 1
