-- The token bucket: the function decide of step.go, on the bytes of a state.
--
-- args: the amount that accrues in a nanosecond and the amount that makes a refill, both divided by
-- their greatest common divisor, that divisor, the burst, the tokens of a refill, and 1 if these come at once
return function(op, state, hi, lo, cost, times, args)
  local speed, period, divisor, burst, batch, interval = args[1], args[2], args[3], args[4], args[5], args[6]
  local used, part = 0, 0
  local skew = 0
  if state ~= '' then
    local status, at_hi, at_lo, was
    status, at_hi, at_lo, used, part, was = decode_usage(state, 116)
    if status then return status end
    if used == 0 then return DAMAGED end
    if interval == 1 then
      part = fmod(part, period)
    elseif part > 0 and was ~= period * divisor or part % divisor ~= 0 then
      return DECLINED
    end
    part = part / divisor
    local missing = ceildiv(used, batch) * period - part
    if missing + part >= EXACT then return DECLINED end

    local accrued = since(hi, lo, at_hi, at_lo) * speed
    if accrued < 0 then
      skew = since(at_hi, at_lo, hi, lo)
      hi, lo = at_hi, at_lo
    elseif accrued >= missing then
      used, part = 0, 0
    else
      local refills
      refills, part = div(accrued + part, period)
      used = used - refills * batch
    end
  end

  if op == 'allow' then
    times = fitting(burst - used, cost, times)
    if times == 0 then return 0, state end
    used = used + cost * times
  elseif op == 'charge' then
    used = used + cost
  else
    if used == 0 then return 1, state end
    used = math.max(used - cost, 0)
    if used == 0 then return 1, '' end
  end
  local missing = ceildiv(used, batch) * period
  if used >= EXACT or missing >= EXACT then return DECLINED end
  return times, encode_usage(116, hi, lo, used, part * divisor, period * divisor), skew + ceildiv(missing - part, speed)
end
