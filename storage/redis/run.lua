-- This script decides a batch; see driver.Batch. run.go encodes ARGV[1] and decodes the
-- reply.

local call, pcall, KEYS, all = redis.call, redis.pcall, KEYS, ARGV[1]
local margin, given, now, count, at = unpack('>I8BI8I2', all, 9)
local version, size, n = sub(all, 1, 8), #all, #KEYS

-- The time is that of the batch, or else the server's TIME, in us. margin is in ms.
local time = call('TIME')
local server = time[1] * 1000000 + time[2]
if given == 0 then now = server end

local list = {}
for i = 1, count do list[i], at = read(all, at) end

-- MGET is faster than a GET for each key. It returns nil for a value that is not a string, so GET
-- reads that key again. _G.unpack takes fewer than 8000 values.
local found = n > 1 and n < 1000 and call('MGET', _G.unpack(KEYS)) or {}
local states, failed = {}, {}
for i = 1, n do
  local value, state = found[i] or pcall('GET', KEYS[i]), ''
  if value then
    if value.err then
      failed[i], value = value.err, false
    else
      state = sub(value, 9)
      if #value < 8 or sub(value, 1, 8) == '\0\0\0\0\0\0\0\0' then failed[i] = 'NORECORD' end
    end
  end
  found[i], states[i] = value, state
end

-- Decide each request: first all its uses, then change all their states or none. A request with one use is the common case.
local ttls, denied, applied, changes = {}, {}, {}, nil -- ttls has the changed keys, and denied those whose TTLs the limiter needs
while at <= size do
  local outcome, allowed, last = 0, true, 0
  while last == 0 do
    local key, number, op, shadow, times, cost
    key, number, op, shadow, last, times, cost, at = unpack('>I4I2BBBI4I8', all, at)
    if failed[key] then
      allowed = false
    elseif outcome >= 0 then
      local p, state = list[number], states[key]
      local steps, next, ttl = p.run(op == 0 and 'allow' or op == 1 and 'refund' or 'charge', state, now, cost, times, p.args)
      if steps > 0 then
        outcome = outcome + steps
        if next ~= state then
          changes = changes or {}
          changes[#changes + 1] = { key, next, ttl or 0 }
        end
      elseif steps == 0 then
        denied[key] = true
        allowed = allowed and shadow == 1
      elseif steps == DECLINED or shadow == 0 then
        outcome = steps
      end
    end
  end
  if not allowed then outcome = min(outcome, 0) end
  if changes then
    if allowed and outcome >= 0 then
      for _, c in ipairs(changes) do states[c[1]], ttls[c[1]] = c[2], c[3] end
    end
    changes = nil
  end
  applied[#applied + 1] = outcome == 1 and '\0\0\0\1' or pack('>i4', outcome) -- 1 is the common case
end

-- The first write may raise an error, because nothing is written yet. Later writes must not. Redis
-- formats numbers slowly, so equal TTLs are formatted once. %d is safe for 32 bits only.
local write, last_px, text = call, nil, nil
for i, ttl in pairs(ttls) do
  local next, reply = states[i], false
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

found[n + 1] = pack('>I8', now) .. table.concat(applied)
for key, reason in pairs(failed) do found[#found + 1] = pack('>I4', key) .. reason end
for key in pairs(denied) do
  local left = not failed[key] and found[key] and pcall('PTTL', KEYS[key])
  if type(left) == 'number' and left >= 0 then found[#found + 1] = pack('>I4', key) .. 'TTL ' .. max(left, 1) end
end
return found
