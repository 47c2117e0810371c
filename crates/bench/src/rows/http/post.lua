-- Posts the lines of a file, drawn at random, and says in one line of numbers what came of it.
local requests = {}

function init(arguments)
  local headers = { ["Content-Type"] = "application/json" }
  for body in io.lines(arguments[1]) do
    requests[#requests + 1] = wrk.format("POST", nil, headers, body)
  end
end

function request()
  return requests[math.random(#requests)]
end

function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print("sum:", summary.requests, summary.duration, failed)
end
