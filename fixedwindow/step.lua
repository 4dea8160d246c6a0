-- The fixed window: the function decide of step.go, on the bytes of a state.
--
-- args: the limit's count and period, 1 for windows by the clock, and the offset of these
return function(op, state, hi, lo, cost, times, args)
  local limit, period, by_clock, offset = args[1], args[2], args[3], args[4]

  -- remaining returns how long a window lasts if it opens at a given time.
  local function remaining(t_hi, t_lo)
    if by_clock == 0 then return period end
    local rest = period - modulo(t_hi, t_lo, period)
    if offset == 0 then return rest end
    if rest > period - offset then rest = rest - period end
    return rest + offset
  end

  local start_hi, start_lo, used, left = hi, lo, 0, nil
  if state ~= '' then
    if #state < 11 or byte(state, 1) ~= 102 or byte(state, 2) ~= 1 then return DAMAGED end
    start_hi, start_lo = unpack('>I4I4', state, 3)
    local past
    used, past = uvarint(state, 11)
    if not used or past ~= #state + 1 or used == 0 or start_hi > LAST then return DAMAGED end
    if used >= EXACT then return DECLINED end
    left = remaining(start_hi, start_lo) - since(hi, lo, start_hi, start_lo)
    if left <= 0 then start_hi, start_lo, used, left = hi, lo, 0, nil end
  end
  left = left or remaining(hi, lo)

  if op == 'allow' then
    times = fitting(limit - used, cost, times)
    if times == 0 then return 0, state end
    used = used + cost * times
  elseif op == 'charge' then
    used = used + cost
  else
    if used == 0 then return 1, state end
    used = math.max(used - cost, 0)
    if used == 0 then return 1, '' end
  end
  if used >= EXACT then return DECLINED end
  return times, pack('>BBI4I4', 102, 1, start_hi, start_lo) .. touvarint(used), left
end
