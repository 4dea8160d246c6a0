-- step runs a program, or the parts of a stack, as algo.Program says.
local step

-- frame splits the state of a stack into the states of n parts; nothing if it is no such state.
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

-- steps runs the parts of a stack. If one allows fewer requests than the others, these
-- decide again on no more than that.
local function steps(op, state, hi, lo, cost, times, programs)
  local parts = frame(state, #programs)
  if not parts then return DAMAGED end
  local counts, nexts, ttls, least = {}, {}, {}, times
  for i, program in ipairs(programs) do
    counts[i], nexts[i], ttls[i] = step(program, op, parts[i], hi, lo, cost, times)
    if counts[i] < 0 then return counts[i] end
    least = math.min(least, counts[i])
  end
  if least == 0 then return 0, state end
  local next, longest = char(97, 1), 0
  for i, program in ipairs(programs) do
    if counts[i] > least then
      counts[i], nexts[i], ttls[i] = step(program, op, parts[i], hi, lo, cost, least)
    end
    longest = math.max(longest, ttls[i] or 0)
    next = next .. touvarint(#nexts[i]) .. nexts[i]
  end
  if longest == 0 and next ~= state then return least, '' end -- every part is full again
  return least, next, longest
end

step = function(program, op, state, hi, lo, cost, times)
  if program.parts then return steps(op, state, hi, lo, cost, times, program.parts) end
  return program.run(op, state, hi, lo, cost, times, program.args)
end

-- read reads what Go's Append wrote, and returns where it ends.
local read
read = function(list, from)
  local name, n = list[from], tonumber(list[from + 1])
  from = from + 2
  if name ~= 'all' then
    local args = {}
    for i = 1, n do args[i] = tonumber(list[from + i - 1]) end
    return { run = programs[name], args = args }, from + n
  end
  local parts = {}
  for i = 1, n do parts[i], from = read(list, from) end
  return { parts = parts }, from
end
