-- uvarint decodes a number in base 128, lowest digit first, and returns it and the position after
-- it. It returns nothing if the bytes are not a number in its shortest form, or if it has more than four digits.
local function uvarint(s, from)
  local x, scale = 0, 1
  for i = from, from + 3 do
    local b = byte(s, i)
    if not b then return end
    if b < 128 then
      if b == 0 and i > from then return end
      return x + b * scale, i + 1
    end
    x = x + (b - 128) * scale
    scale = scale * 128
  end
end

-- touvarint encodes a number in base 128.
local function touvarint(x)
  local s = ''
  while x >= 128 do
    s = s .. char(x % 128 + 128)
    x = floor(x / 128)
  end
  return s .. char(x)
end

-- frame splits the state of a stack into the states of its n parts. It returns nil if the state is
-- malformed.
local function frame(state, n)
  local parts, used = {}, false
  if state == '' then
    for i = 1, n do parts[i] = '' end
    return parts
  end
  if byte(state, 1) ~= 97 or byte(state, 2) ~= 1 then return end
  local from = 3
  for i = 1, n do
    local length
    length, from = uvarint(state, from)
    if not length or from + length > #state + 1 then return end
    parts[i] = sub(state, from, from + length - 1)
    from = from + length
    used = used or length > 0
  end
  if used and from == #state + 1 then return parts end
end

-- The program of a stack. Its arguments are the programs of its parts. If one part allows fewer requests
-- than the others, the others decide again with that number.
programs.all = function(op, state, now, cost, times, parts)
  local states = frame(state, #parts)
  if not states then return DAMAGED end
  local counts, nexts, ttls, least = {}, {}, {}, times
  for i, part in ipairs(parts) do
    counts[i], nexts[i], ttls[i] = part.run(op, states[i], now, cost, times, part)
    if counts[i] < 0 then return counts[i] end
    least = min(least, counts[i])
  end
  if least == 0 then return 0, state end
  local next, longest = char(97, 1), 0
  for i, part in ipairs(parts) do
    if counts[i] > least then
      counts[i], nexts[i], ttls[i] = part.run(op, states[i], now, cost, least, part)
    end
    longest = max(longest, ttls[i] or 0)
    next = next .. touvarint(#nexts[i]) .. nexts[i]
  end
  if longest == 0 and next ~= state then return least, '' end -- no part has units in use
  return least, next, longest
end
