
-- What follows decides a batch, as storage.Batch says. run.go writes ARGV and reads the reply.
--
-- ARGV: the version, the times, the requests, and the programs.

local call, pcall, floor, ceil, KEYS, ARGV = redis.call, redis.pcall, math.floor, math.ceil, KEYS, ARGV
local version, requests = ARGV[1], ARGV[3]

-- The time is TIME of the server, unless the batch has its own. In nanoseconds TIME does not
-- fit into a double, but divided by 512 its seconds do. margin, now_ms and given_ms are in ms.
local time = call('TIME')
local now_ms = time[1] * 1000 + floor(time[2] / 1000)
local hi, lo, margin, given_ms, given_ns
if #ARGV[2] == 8 then
  margin = unpack('>I8', ARGV[2])
  local high = time[1] * 1953125
  local low = high % 8388608 * 512 + time[2] * 1000 -- % is exact for powers of two
  lo = low % WORD
  hi = (high - high % 8388608) / 8388608 + (low - lo) / WORD
else
  margin, hi, lo, given_ms, given_ns = unpack('>I8I4I4I8I4', ARGV[2])
end

local list, from, argc = {}, 4, #ARGV
while from <= argc do list[#list + 1], from = read(ARGV, from) end

-- MGET is quicker than a GET for each key, but it takes what is no string for absent, and
-- the other unpack takes less than 8000 keys.
local n = #KEYS
local found = n > 1 and n < 1000 and call('MGET', _G.unpack(KEYS)) or {}
local states, stored, failed = {}, {}, {}
for i = 1, n do
  local value = found[i] or pcall('GET', KEYS[i])
  if type(value) == 'table' then
    failed[i], value = value.err, false
  elseif value and (#value < 8 or sub(value, 1, 8) == '\0\0\0\0\0\0\0\0') then
    failed[i] = 'NORECORD'
  end
  found[i] = value
  states[i] = value and sub(value, 9) or ''
  stored[i] = value and sub(value, 1, 8) == version
end

-- run applies one use to the state of its key. It returns how many steps it has applied, or why
-- it cannot, then the next state and its TTL.
local function run(program, op, state, cost, times)
  if op == 0 then return step(program, 'allow', state, hi, lo, cost, times) end
  local name, ttl = op == 1 and 'refund' or 'charge', nil
  for _ = 1, times do
    local count, next, left = step(program, name, state, hi, lo, cost, 1)
    if count < 0 then return count end
    if next ~= state then state, ttl = next, left end
  end
  return times, state, ttl
end

-- Each request is decided: all its uses first, then their states change, or none does.
local changed, ttls, order = {}, {}, {}
local applied, at, size = {}, 1, #requests
while at <= size do
  local outcome, allowed, changes, last = 0, true, nil, 0
  while last == 0 do
    local key, program, op, shadow, cost, times
    key, program, op, shadow, last, times, cost, at = unpack('>I4I2BBBI4I8', requests, at)
    if stored[key] then
      outcome = -3
    elseif failed[key] then
      allowed = false
    elseif outcome < 0 then
      -- it stays undecided
    elseif op < 3 then
      local count, next, ttl = run(list[program], op, states[key], cost, times)
      if count > 0 then
        outcome = outcome + count
        if next ~= states[key] then changes = { key, next, ttl, changes } end
      elseif count == 0 then
        allowed = allowed and shadow == 1
      elseif count == DECLINED or shadow == 0 then
        outcome = count
      end
    elseif op == 4 and (found[key] or changed[key]) then
      changes = { key, '', nil, changes }
    end
  end
  if not allowed then outcome = math.min(outcome, 0) end
  while allowed and outcome >= 0 and changes do
    local key = changes[1]
    if not changed[key] then order[#order + 1], changed[key] = key, true end
    states[key], ttls[key], changes = changes[2], changes[3], changes[4]
  end
  if outcome < 0 then
    outcome = char(256 + outcome)
  elseif outcome < 252 then
    outcome = char(outcome)
  else
    outcome = pack('>BI4', 252, outcome)
  end
  applied[#applied + 1] = outcome
end

-- The first write may raise an error, because nothing is written then. Later ones must not.
local write = call
for i = 1, #order do
  local key, reply = order[i], false
  local ttl, next = ttls[key] or 0, states[key]
  local px = ceil(ttl / 1000000) + margin
  if given_ms then px = math.max(px, given_ms + ceil((given_ns + ttl) / 1000000) + margin - now_ms) end
  if next == '' then
    reply = found[key] and write('DEL', KEYS[key])
  elseif ttl == 0 or px >= 3155760000000 then -- 100 years
    reply = write('SET', KEYS[key], version .. next)
  else
    reply = write('PSETEX', KEYS[key], px, version .. next)
  end
  if reply then write = pcall end
  if type(reply) == 'table' and reply.err then failed[key] = 'WRITE ' .. reply.err end
end

found[n + 1] = pack('>I4I4', hi, lo) .. table.concat(applied)
for key, reason in pairs(failed) do found[#found + 1] = pack('>I4', key) .. reason end
return found
