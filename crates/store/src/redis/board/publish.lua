-- Replaces what is on the board with something newer, and tells everybody.
--
-- KEYS[1]     the board, a hash
-- ARGV[1..2]  epoch and number of the new revision, in digits without leading zeros
-- ARGV[3]     the channel
-- ARGV[4..5]  the largest epoch and number that can be real
-- ARGV[6..]   the other fields and their values, by turns
-- answer      1 if it is on the board now, 0 if that held something as new or newer,
--             -1 if nobody can tell because it was not written here

-- As many fields and values as one call takes with ease.
local CHUNK = 2000

local board, epoch, number, channel = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local max_epoch, max_number = ARGV[4], ARGV[5]

-- Digits, because numbers of scripts are doubles.
local function is_less(one, other)
  if #one ~= #other then
    return #one < #other
  end
  return one < other
end

-- A revision that is not real yet, or never. If that is true of ours as well, the clock of this node is
-- wrong.
local function is_beyond(one_epoch, one_number)
  return is_less(max_epoch, one_epoch) or is_less(max_number, one_number)
end

local held = redis.call('HGET', board, '#revision')
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
elseif redis.call('EXISTS', board) == 1 then
  return -1
end

-- Scripts are not undone, so whoever lacks a right learns it while nothing has changed: messages leave
-- when all is done, and no field has this name. What has begun to delete is not held up by a server
-- that is full.
local revision = epoch .. '-' .. number
local fields = redis.call('HKEYS', board)
redis.call('PUBLISH', channel, revision)
redis.call('HDEL', board, '#')

redis.call('HSET', board, '#revision', revision)
local is_new = { ['#revision'] = true }
for first = 6, #ARGV, CHUNK do
  local last = math.min(first + CHUNK - 1, #ARGV)
  redis.call('HSET', board, unpack(ARGV, first, last))
  for place = first, last, 2 do
    is_new[ARGV[place]] = true
  end
end

-- Field by field, because a slot on its way to another server lets go of a key that is deleted.
for _, field in ipairs(fields) do
  if not is_new[field] then
    redis.call('HDEL', board, field)
  end
end
return 1
