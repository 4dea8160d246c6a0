-- GCRA: the function decide of step.go, on the bytes of a state.
--
-- args: burst, unit, drain

local burst, unit, drain = args[1], args[2], args[3]
local at, level = now, 0
if state ~= '' then
  local tag, version, was
  if #state ~= 25 then return DAMAGED end
  tag, version, at, level, was = unpack('>BBI7I8I8', state)
  if tag ~= 103 or version ~= 1 or at > MAX or level < 1 or level > MAX or was < 1 or was > MAX then return DAMAGED end
  if was ~= unit then level = min(ceil(level / was), floor(MAX / unit)) * unit end
end

local passed, skew = now - at, 0
if passed < 0 then
  skew = -passed
elseif passed >= level / drain then
  at, level = now, 0
else
  at, level = now, level - passed * drain
end
local seen = level
if skew > 0 then seen = min(level + skew * drain, MAX) end

local paid
if op == 'refund' then
  paid = -min(cost, ceil(level / unit))
elseif op == 'charge' then
  paid = min(cost, floor((MAX - level) / unit))
elseif cost > burst or seen + cost * unit > burst * unit then
  return 0, state
else
  if times > 1 then times = min(times, floor((burst * unit - seen) / (cost * unit))) end
  paid = cost * times
end

level = level + paid * unit
if level <= 0 then return 1, paid == 0 and state or '' end
if paid ~= 0 then state = pack('>BBI7I8I8', 103, 1, at, level, unit) end
return times, state, skew + ceil(level / drain)
