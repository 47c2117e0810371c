-- Arithmetic on amounts that need not be plain.
local function amounts()
  local amount = {}

  -- a * b / w as whole number and rest, for a <= w < 2^45 and b < 2^42. A product too large for a double is computed
  -- from seven bits of b at a time.
  function amount.proportion(a, b, w)
    local floor = math.floor
    local product = a * b
    if product < 4503599627370496 then
      local whole = floor(product / w)
      local rest = product - whole * w
      if rest < 0 then
        return whole - 1, rest + w
      end
      return whole, rest
    end
    local whole, rest, scale = 0, 0, 34359738368
    for _ = 1, 6 do
      local digit = floor(b / scale)
      b = b - digit * scale
      scale = scale / 128
      rest = rest * 128 + a * digit
      local times = floor(rest / w)
      rest = rest - times * w
      if rest < 0 then
        times, rest = times - 1, rest + w
      end
      whole = whole * 128 + times
    end
    return whole, rest
  end

  -- Whether one amount is more than another.
  function amount.exceeds(whole, rest, other_whole, other_rest)
    return whole > other_whole or (whole == other_whole and rest > other_rest)
  end

  return amount
end
