-- Sends one request again and again. Before each it counts to a number, so that a server can be given less than it can
-- bear.
local request_text
local count = 0
local sum = 0

function init(arguments)
  request_text = wrk.format("GET", "/")
  count = tonumber(arguments[1])
end

function request()
  for number = 1, count do
    sum = (sum * 31 + number) % 65536
  end
  return request_text
end
