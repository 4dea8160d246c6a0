-- The token bucket: the function decide of step.go, on the bytes of a state.
--
-- args: burst, unit, drain, every, most
local BEGUN = 2251799813685248 -- 2^51, added to the time since the last refill

local burst, unit, drain, every, most = args[1], args[2], args[3], args[4], args[5]
local last, at, level = now, now, 0
if state ~= '' then
  local tag, version, was, passed
  if #state ~= 25 then return DAMAGED end
  tag, version, last, level, was = unpack('>BBI7I8I8', state)
  if tag ~= 116 or version ~= 1 or last > MAX or level < 1 or level > MAX or was < 1 or was > MAX then return DAMAGED end
  was, passed = was < BEGUN and was or 1, max(0, was - BEGUN)
  at = last - passed % every
  if was ~= unit then level = min(ceil(level / was), floor(most / unit)) * unit end
  level = min(level, most)
end

local refills = floor(max(0, now - at) / every)
if refills >= level / drain then
  at, level = now, 0
else
  at, level = at + refills * every, level - refills * drain
end

local paid
if op == 'refund' then
  paid = -min(cost, ceil(level / unit))
elseif op == 'charge' then
  paid = min(cost, floor((most - level) / unit))
elseif cost > burst or level + cost * unit > burst * unit then
  return 0, state
else
  if times > 1 then times = min(times, floor((burst * unit - level) / (cost * unit))) end
  paid = cost * times
end

level = level + paid * unit
if level <= 0 then return 1, paid == 0 and state or '' end
if paid ~= 0 then
  last = max(last, now)
  if every > 1 then unit = BEGUN + last - at end
  state = pack('>BBI7I8I8', 116, 1, last, level, unit)
end
return times, state, at + ceil(level / drain) * every - now
