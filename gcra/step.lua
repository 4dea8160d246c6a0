-- GCRA: the function decide of step.go, on the bytes of a state.
--
-- args: the limit's count and period divided by their greatest common divisor, that divisor, the burst
--
-- owed, the units in use times period, stays below 2^52, so the operator % and the rounding of a quotient are exact.
return function(op, state, hi, lo, cost, times, args)
  local count, period, divisor, burst = args[1], args[2], args[3], args[4]
  local at_hi, at_lo, used, part = hi, lo, 0, 0
  if state ~= '' then
    local status, was
    status, at_hi, at_lo, used, part, was = decode_usage(state, 103)
    if status then return status end
    if part > 0 and was ~= period * divisor or part % divisor ~= 0 then return DECLINED end
    part = part / divisor
  end
  local owed = used * period + part
  if owed >= HALF then return DECLINED end

  -- Every nanosecond subtracts `count` from owed. A clock that is behind sees more owed.
  local drained = ((hi - at_hi) * WORD + (lo - at_lo)) * count
  local behind = drained < 0
  if op == 'allow' then
    if drained >= owed then owed = 0 else owed = owed - drained end
    if owed >= HALF then return DECLINED end
    local left, price = burst * period - owed, cost * period
    if left < price then return 0, state end
    if times > 1 then
      times = math.min(times, math.floor(left / price))
      cost, price = cost * times, price * times
    end
    if behind then
      used = used + cost
    else
      at_hi, at_lo = hi, lo
      part = (owed + price) % period
      used = (owed + price - part) / period
    end
  else
    if not behind then
      at_hi, at_lo, owed = hi, lo, math.max(owed - drained, 0)
      part = owed % period
      used = (owed - part) / period
      drained = 0
    end
    local before = used
    if part > 0 then before = before + 1 end
    if op == 'charge' then
      used = used + cost
    elseif cost > used then
      used, part = 0, 0
    else
      used = used - cost
    end
    local after = used
    if part > 0 then after = after + 1 end
    if before == after then return 1, state end
    if after == 0 then return 1, '' end
  end
  owed = used * period + part
  if behind then owed = owed - drained end
  if owed >= HALF then return DECLINED end
  return times, encode_usage(103, at_hi, at_lo, used, part * divisor, period * divisor), math.ceil(owed / count)
end
