-- This script decides a batch; see driver.Batch. run.go encodes ARGV[1] and decodes the
-- reply.

local call, pcall, KEYS, all = redis.call, redis.pcall, KEYS, ARGV[1]
local margin, given, now, count, at = unpack('>I8BI8I2', all, 9)
local n, size = #KEYS, #all

-- The time is that of the batch, or else the server's TIME, in us. margin is in ms.
local time = call('TIME')
local server = time[1] * 1000000 + time[2]
if given == 0 then now = server end

local list = {}
for i = 1, count do list[i], at = read(all, at) end

local failed -- the errors of keys; nil if there are none, which saves the time for a table
local function fail(key, reason)
  failed = failed or {}
  failed[key] = reason
end

-- MGET is faster than a GET for each key. It returns nil for a value that is not a string, so GET
-- reads that key again. _G.unpack takes fewer than 8000 values.
local found, states = n > 1 and n < 1000 and call('MGET', _G.unpack(KEYS)) or {}, {}
for i = 1, n do
  local value = found[i]
  if not value then
    value = pcall('GET', KEYS[i])
    if value and value.err then
      fail(i, value.err)
      value = false
    end
    found[i] = value
  end
  if value then
    states[i] = sub(value, 9)
    local last = byte(value, 8) -- of the version
    if not last or last == 0 and sub(value, 1, 8) == '\0\0\0\0\0\0\0\0' then fail(i, 'NORECORD') end
  else
    states[i] = ''
  end
end

-- Decide each request: first all its uses, then change all their states or none.
local ttls, denied = {}, nil -- ttls has the changed keys, and denied those whose TTLs the limiter needs
local head, requests = { pack('>I8', now) }, 1
local undo = {} -- has a key, its state and its TTL before each change of a request that can still deny
while at <= size do
  local start, outcome, allowed, last, changed, several = at, 0, true, 0, 0, false
  local fewest, longest, most = nil, 0, nil -- the fewest steps of a use that is no shadow, the most of any, and how many all allow
  while last == 0 do
    local key, number, op, shadow, times, cost
    key, number, op, shadow, last, times, cost, at = unpack('>I4I2BBBI4I8', all, at)
    if last == 0 then several = true end
    if failed and failed[key] then
      allowed = false
    elseif outcome >= 0 then
      local p, state = list[number], states[key]
      local steps, next, ttl = p.run(op == 0 and 'allow' or op == 1 and 'refund' or 'charge', state, now, cost, most or times, p)
      if steps > 0 then
        outcome = outcome + steps
        if steps > longest then longest = steps end
        if shadow == 0 and (not fewest or steps < fewest) then fewest = steps end
        if next ~= state then
          if several then
            undo[changed + 1], undo[changed + 2], undo[changed + 3] = key, state, ttls[key] or false
            changed = changed + 3
          end
          states[key], ttls[key] = next, ttl or 0
        end
      elseif steps == 0 then
        denied = denied or {}
        denied[key] = true
        allowed = allowed and shadow == 1
      elseif steps == DECLINED or shadow == 0 then
        outcome = steps
      end
    end
    if last == 1 then
      local again = allowed and outcome > 0 and fewest and longest > fewest
      if not allowed then outcome = min(outcome, 0) end
      if again or outcome <= 0 then
        for i = 1, changed, 3 do states[undo[i]], ttls[undo[i]] = undo[i + 1], undo[i + 2] end
      end
      if again then at, outcome, last, changed, longest, most = start, 0, 0, 0, 0, fewest end
    end
  end
  requests = requests + 1
  head[requests] = outcome == 1 and '\0\0\0\1' or pack('>i4', outcome) -- 1 is the common case
end

-- The first write may raise an error, because nothing is written yet. Later writes must not. Redis
-- formats numbers slowly, so equal TTLs are formatted once. %d is safe for 32 bits only.
local write, version, last_px, text = call, sub(all, 1, 8), nil, nil
local ahead = max(now - server, 0)
for i = 1, n do
  local ttl, next, reply = ttls[i], states[i], nil
  if ttl and next == '' then
    reply = found[i] and write('DEL', KEYS[i])
    if type(reply) == 'number' then reply, write = nil, pcall end
  elseif ttl then
    local px = ceil((ahead + ttl) / 1000) + margin
    if ttl == 0 or px >= 3155760000000 then -- 100 years
      reply = write('SET', KEYS[i], version .. next)
    else
      if px ~= last_px then last_px, text = px, px < 2147483648 and string.format('%d', px) or px end
      reply = write('PSETEX', KEYS[i], text, version .. next)
    end
  end
  if reply then
    write = pcall
    if reply.err then fail(i, 'WRITE ' .. reply.err) end
  end
end

found[n + 1] = concat(head)
if failed then
  for key, reason in pairs(failed) do found[#found + 1] = pack('>I4', key) .. reason end
end
if denied then
  for key in pairs(denied) do
    local left = not (failed and failed[key]) and found[key] and pcall('PTTL', KEYS[key])
    if type(left) == 'number' and left >= 0 then found[#found + 1] = pack('>I4', key) .. 'TTL ' .. max(left, 1) end
  end
end
return found
