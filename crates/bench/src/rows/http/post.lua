-- Posts the lines of a file, drawn at random, and says in one line of numbers what came of it. Before
-- each it counts to a number, so that a server can be given less than it can bear.
local requests = {}
local count = 0
local sum = 0

function init(arguments)
  local headers = { ["Content-Type"] = "application/json" }
  for body in io.lines(arguments[1]) do
    requests[#requests + 1] = wrk.format("POST", nil, headers, body)
  end
  count = tonumber(arguments[2])
end

function request()
  for number = 1, count do
    sum = (sum * 31 + number) % 65536
  end
  return requests[math.random(#requests)]
end

function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print("sum:", summary.requests, summary.duration, failed)
end
