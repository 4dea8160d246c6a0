-- GCRA: decide in step.go and adjust in adjust.go, on the bytes of a state.
--
-- args: the limit's count and period divided by their greatest common divisor, that divisor, the burst
return function(op, state, hi, lo, cost, times, args)
  local count, period, divisor, burst = args[1], args[2], args[3], args[4]
  local at_hi, at_lo, used, part = hi, lo, 0, 0
  if state ~= '' then
    local status, was
    status, at_hi, at_lo, used, part, was = tally(state, 103)
    if status then return status end
    if part > 0 and was ~= period * divisor or fmod(part, divisor) ~= 0 then return DECLINED end
    part = part / divisor
  end
  local owed = used * period + part
  if owed >= EXACT then return DECLINED end

  -- What is owed drains by count in a nanosecond. A clock that is behind sees more.
  local drained = since(hi, lo, at_hi, at_lo) * count
  local behind = drained < 0
  if op == 'allow' then
    if drained >= owed then owed = 0 else owed = owed - drained end
    if owed >= EXACT then return DECLINED end
    local left = div(burst * period - owed, period)
    times = fitting(left, cost, times)
    if times == 0 then return 0, state end
    cost = cost * times
    if behind then
      used = used + cost
    else
      at_hi, at_lo = hi, lo
      used, part = div(owed + cost * period, period)
    end
  else
    if not behind then
      at_hi, at_lo, drained = hi, lo, math.min(drained, owed)
      used, part = div(owed - drained, period)
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
  if owed >= EXACT then return DECLINED end
  return times, totally(103, at_hi, at_lo, used, part * divisor, period * divisor), ceildiv(owed, count)
end
