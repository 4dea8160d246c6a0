-- The fixed window: the function decide of step.go, on the bytes of a state.
--
-- args: limit, period, offset
local function end_of(start, period, offset)
  if offset < 0 then return start + period end
  return start + period - (start + period - offset) % period
end

local limit, period, offset = args[1], args[2], args[3]
local start, used = 0, 0
if state ~= '' then
  local tag, version
  if #state ~= 17 then return DAMAGED end
  tag, version, start, used = unpack('>BBI7I8', state)
  if tag ~= 102 or version ~= 1 or start > MAX or used < 1 or used > MAX then return DAMAGED end
end

local ends = end_of(start, period, offset)
if used == 0 or now >= ends then
  start, used, ends = now, 0, end_of(now, period, offset)
end

local paid
if op == 'refund' then
  paid = -min(cost, used)
elseif op == 'charge' then
  paid = min(cost, MAX - used)
elseif cost > limit or cost > limit - used then
  return 0, state
else
  if times > 1 then times = min(times, floor((limit - used) / cost)) end
  paid = cost * times
end

used = used + paid
if used == 0 then return 1, paid == 0 and state or '' end
if paid ~= 0 then state = pack('>BBI7I8', 102, 1, start, used) end
return times, state, ends - now
