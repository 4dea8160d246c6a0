-- The moving window: the function decide of step.go, on the bytes of a state.
--
-- args: limit, width, slots, grain, weight, most, paidAt

local limit, width, slots, grain, weight, most, paidAt = args[1], args[2], args[3], args[4], args[5], args[6], args[7]
local at, counts, n = now, {}, 0
if state ~= '' then
  if #state < 19 then return DAMAGED end
  local tag, version, stored, was, sizes = unpack('>BBI7I7I2', state)
  local size = floor(sizes / 2048)
  n = sizes % 2048
  if tag ~= 109 or version ~= 1 or stored > MAX or was < 1 or was > MAX or size < 1 or size > 7 or n > 1025 or n * size ~= #state - 18 then return DAMAGED end
  local format, largest, sum = '>I' .. size, 0, 0
  for i = 1, n do
    counts[i] = unpack(format, state, 19 + (i - 1) * size)
    largest = max(largest, counts[i])
    sum = sum + counts[i]
  end
  if counts[n] == 0 or sum > MAX or size > 1 and largest < 256 ^ (size - 1) then return DAMAGED end
  if was ~= width or sum > most + limit then return DECLINED end
  at = max(stored, now)

  -- The counts grow older by the slots that have begun since.
  local older = floor(at / width) - floor(stored / width)
  if older > slots then
    counts, n = {}, 0
  else
    n = min(n, slots + 1 - older)
    for i = n, 1, -1 do counts[i + older] = counts[i] end
    for i = 1, older do counts[i] = 0 end
    n = n + older
  end
end
local into = at % width
local recent, trailing = 0, n > slots and counts[slots + 1] or 0
for i = 1, min(n, slots) do recent = recent + counts[i] end

local newest, oldest = 1, n -- of the slots that give units back
if paidAt > 0 then
  newest = floor(at / width) - floor((paidAt - 1) / width) + 1
  oldest = newest
end

local changed = true
if op == 'refund' then
  local given = 0
  for i = max(newest, 1), min(oldest, n) do
    local back = min(cost - given, counts[i])
    counts[i] = counts[i] - back
    given = given + back
  end
  changed = given > 0
elseif op == 'allow' and paidAt > 0 then
  if newest < 1 or newest > n or counts[newest] < cost then return 0, state end
  if newest > 1 then
    times = min(times, floor(counts[newest] / cost))
    counts[newest] = counts[newest] - cost * times
    counts[1] = counts[1] + cost * times
  end
else
  if op == 'charge' then
    cost = max(0, min(cost, most - recent - trailing))
    changed = cost > 0
  else
    local overlap = min(weight, ceil((width - into) / grain))
    local left = limit - recent - ceil(trailing * overlap / weight)
    if cost > limit or cost > left then return 0, state end
    if times > 1 then times = min(times, floor(left / cost)) end
    cost = cost * times
  end
  n = max(1, n)
  counts[1] = (counts[1] or 0) + cost
end

local first, last, largest = 0, 0, 0
for i = n, 1, -1 do
  if counts[i] > 0 then first, last, largest = i, max(i, last), max(largest, counts[i]) end
end
if first == 0 then return 1, changed and '' or state end
if changed then
  local size, next = 1, {}
  while largest >= 256 ^ size do size = size + 1 end
  for i = 1, last do next[i] = pack('>I' .. size, counts[i]) end
  state = pack('>BBI7I7I2', 109, 1, at, width, size * 2048 + last) .. concat(next)
end
return times, state, at - into + (slots + 2 - first) * width - now
