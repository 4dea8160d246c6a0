-- The moving window: the function decide of step.go, on the bytes of a state.
--
-- args: the limit's count, the width of a slot, the number of slots, and 1 if the trailing slot
-- counts whole
return function(op, state, hi, lo, cost, times, args)
  local limit, slot, slots, whole = args[1], args[2], args[3], args[4]
  local counts, n, skew = {}, 0, 0
  local at_hi, at_lo
  if state ~= '' then
    if #state < 20 or byte(state, 1) ~= 109 or byte(state, 2) ~= 1 then return DAMAGED end
    at_hi, at_lo = unpack('>I4I4', state, 3)
    if at_hi > LAST or unpack('>I4', state, 11) > LAST + 1 then return DAMAGED end
    local from, sum
    n, from = uvarint(state, 19)
    if not n or n == 0 or n > 1025 then return DAMAGED end
    if unpack('>I8', state, 11) ~= slot or n > slots + 1 then return DECLINED end
    sum = 0
    for i = 1, n do
      counts[i], from = uvarint(state, from)
      if not from then return DAMAGED end
      sum = sum + counts[i]
    end
    if from ~= #state + 1 or counts[n] == 0 then return DAMAGED end
    if sum >= EXACT then return DECLINED end
    if since(hi, lo, at_hi, at_lo) < 0 then
      skew = since(at_hi, at_lo, hi, lo)
      hi, lo = at_hi, at_lo
    end
  end

  -- The counts grow older by the slots that have begun since.
  local into = modulo(hi, lo, slot)
  local age = 0
  if n > 0 then
    local before = since(hi, lo, at_hi, at_lo) - into -- from the last step to the current slot
    if before > 0 then age = ceildiv(before, slot) end
  end
  local aged, recent = {}, 0
  for i = 1, slots + 1 do
    aged[i] = counts[i - age] or 0
    if i <= slots then recent = recent + aged[i] end
  end
  local trailing = aged[slots + 1]
  local fresh = recent + trailing == 0

  if op == 'refund' then
    if fresh then return 1, state end
    for i = 1, slots + 1 do
      local back = math.min(cost, aged[i])
      aged[i] = aged[i] - back
      cost = cost - back
      recent = recent - back
    end
    if recent + trailing <= 0 then return 1, '' end
  else
    if op == 'allow' then
      local share = trailing
      if whole == 0 and trailing > 0 then
        local rest
        share, rest = scaled(trailing, slot - into, slot)
        if rest > 0 then share = share + 1 end
      end
      times = fitting(limit - recent - share, cost, times)
      if times == 0 then return 0, state end
      cost = cost * times
    end
    aged[1] = aged[1] + cost
    if recent + trailing + cost >= EXACT then return DECLINED end
  end

  local last, first = slots + 1, 1
  while last > 0 and aged[last] == 0 do last = last - 1 end
  while aged[first] == 0 do first = first + 1 end
  local next = { pack('>BBI4I4I8', 109, 1, hi, lo, slot), touvarint(last) }
  for i = 1, last do next[#next + 1] = touvarint(aged[i]) end
  return times, table.concat(next), skew + ((slots + 2 - first) * slot - into)
end
