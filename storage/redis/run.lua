-- This script decides a batch; see driver.Batch. run.go encodes ARGV[1] and decodes the
-- reply.

local call, pcall, KEYS, all = redis.call, redis.pcall, KEYS, ARGV[1]
local version, margin, given, now, count, at = sub(all, 1, 8), unpack('>I8BI8I2', all, 9)

-- The time is that of the batch, or else the server's TIME, in us. margin is in ms.
local time = call('TIME')
local server = time[1] * 1000000 + time[2]
if given == 0 then now = server end

local list = {}
for i = 1, count do list[i], at = read(all, at) end

-- MGET is faster than a GET for each key. It returns nil for a value that is not a string, so GET
-- reads that key again. _G.unpack takes fewer than 8000 values.
local n = #KEYS
local found = n > 1 and n < 1000 and call('MGET', _G.unpack(KEYS)) or {}
local states, stored, failed = {}, {}, {}
for i = 1, n do
  local value, state = found[i] or pcall('GET', KEYS[i]), ''
  if value and value.err then
    failed[i], value = value.err, false
  elseif value then
    local found_version = sub(value, 1, 8)
    state = sub(value, 9)
    if found_version == version then
      stored[i] = true
    elseif #found_version < 8 or found_version == '\0\0\0\0\0\0\0\0' then
      failed[i] = 'NORECORD'
    end
  end
  found[i], states[i] = value, state
end

-- Decide each request: first all its uses, then change all their states or none.
local ttls, applied, size = {}, {}, #all -- ttls has the changed keys
local read_ttl = {} -- the keys whose TTLs the limiter needs
local keys, nexts, lefts = {}, {}, {}
while at <= size do
  local outcome, allowed, changes, last = 0, true, 0, 0
  while last == 0 do
    local key, program, op, shadow, times, cost
    key, program, op, shadow, last, times, cost, at = unpack('>I4I2BBBI4I8', all, at)
    if stored[key] then
      outcome = -3
    elseif failed[key] then
      allowed = false
    elseif outcome < 0 then
      -- the request stays undecided
    elseif op < 3 then
      local p, state, count, ttl = list[program], states[key], 0, nil
      local name, rounds = 'allow', 1
      if op > 0 then name, rounds, times = op == 1 and 'refund' or 'charge', times, 1 end
      for _ = 1, rounds do
        local steps, next, left = p.run(name, state, now, cost, times, p.args)
        if steps < 0 then
          count = steps
          break
        end
        count = count + steps
        if next ~= state then state, ttl = next, left end
      end
      if count > 0 then
        outcome = outcome + count
        if state ~= states[key] then
          changes = changes + 1
          keys[changes], nexts[changes], lefts[changes] = key, state, ttl
        end
      elseif count == 0 then
        allowed = allowed and shadow == 1
        read_ttl[key] = true
      elseif count == DECLINED or shadow == 0 then
        outcome = count
      end
    elseif op == 3 then
      read_ttl[key] = true
    elseif op == 4 and (found[key] or ttls[key]) then
      changes = changes + 1
      keys[changes], nexts[changes], lefts[changes] = key, '', nil
    end
  end
  if not allowed then outcome = min(outcome, 0) end
  if allowed and outcome >= 0 then
    for i = 1, changes do states[keys[i]], ttls[keys[i]] = nexts[i], lefts[i] or 0 end
  end
  applied[#applied + 1] = outcome == 1 and '\0\0\0\1' or pack('>i4', outcome) -- 1 is the common case
end

-- The first write may raise an error, because nothing is written yet. Later writes must not. Redis
-- formats numbers slowly, so equal TTLs are formatted once. %d is safe for 32 bits only.
local write, last_px, text = call, nil, nil
for i = 1, n do
  local ttl, next, reply = ttls[i], states[i], false
  if ttl then
    local px = ceil((max(now - server, 0) + ttl) / 1000) + margin
    if next == '' then
      reply = found[i] and write('DEL', KEYS[i])
    elseif ttl == 0 or px >= 3155760000000 then -- 100 years
      reply = write('SET', KEYS[i], version .. next)
    else
      if px ~= last_px then last_px, text = px, px < 2147483648 and string.format('%d', px) or px end
      reply = write('PSETEX', KEYS[i], text, version .. next)
    end
    if reply then write = pcall end
    if type(reply) == 'table' and reply.err then failed[i] = 'WRITE ' .. reply.err end
  end
end

found[n + 1] = pack('>I8', now) .. table.concat(applied)
for key, reason in pairs(failed) do found[#found + 1] = pack('>I4', key) .. reason end
for key in pairs(read_ttl) do
  local left = not failed[key] and found[key] and pcall('PTTL', KEYS[key])
  if type(left) == 'number' and left >= 0 then found[#found + 1] = pack('>I4', key) .. 'TTL ' .. max(left, 1) end
end
return found
