-- What was changed is written, each record once. After a failure nothing more is: the server is full or read only.
local write, keys, moments, failure = redis.pcall, KEYS, {}, nil
for r = 1, records do
  local kept = keep[r]
  if kept then
    local key, text, written = keys[r], texts[r], nil
    if kept == 0 and text then
      -- In place: as long as it was, for as long as it was.
      written = write('SETRANGE', key, '0', text)
      if written ~= #text then
        failure = written.err
      end
    else
      if not text then
        written = write('UNLINK', key)
      elseif is_dated == 1 then
        local seconds = kept > second and kept - second or 1
        written = write('SET', key, text, 'PX', string.format('%.0f', seconds * 1000))
      else
        local moment = moments[kept]
        if not moment then
          moment = string.format('%.0f', kept * 1000)
          moments[kept] = moment
        end
        written = write('SET', key, text, 'PXAT', moment)
      end
      failure = type(written) == 'table' and written.err
    end
    if failure then
      replies[reply_count + 1] = '!' .. failure
      break
    end
  end
end
return replies
