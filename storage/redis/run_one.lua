-- This script decides a batch of one request with one use, with the same result as run.lua. It is
-- faster, because it creates fewer tables and functions. run.go encodes ARGV[1] and
-- replaces ARGS with the format of the program's arguments.

local call, key, all = redis.call, KEYS[1], ARGV[1]
local margin, given, hi, lo, given_ms, given_ns, op, shadow, times, cost, args_at = unpack('>I8BI4I4I8I4BBI4I8', all, 9)
local time, value = call('TIME'), redis.pcall('GET', key)
if given == 0 then
  local high = time[1] * 1953125
  local low = high % 8388608 * 512 + time[2] * 1000 -- % by a power of two is exact
  lo = low % WORD
  hi = (high - high % 8388608) / 8388608 + (low - lo) / WORD
end

local version, found_version, state = sub(all, 1, 8), nil, ''
if value then
  local failed = value.err
  if not failed then
    found_version, state = sub(value, 1, 8), sub(value, 9)
    if #found_version < 8 or found_version == '\0\0\0\0\0\0\0\0' then failed = 'NORECORD' end
  end
  if failed then return { false, pack('>I4I4i4', hi, lo, 0), pack('>I4', 1) .. failed } end
end

local count, next, ttl = -3, nil, nil
if found_version ~= version then
  op = op == 0 and 'allow' or op == 1 and 'refund' or 'charge'
  count, next, ttl = program(op, state, hi, lo, cost, times, { unpack('ARGS', all, args_at) })
end
if count == DAMAGED and shadow == 1 then count = 0 end
if count > 0 and next ~= state then
  local px = 0
  if ttl and ttl > 0 then
    px = math.ceil(ttl / 1000000) + margin
    if given == 1 then
      local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
      px = math.max(px, given_ms + math.ceil((given_ns + ttl) / 1000000) + margin - now_ms)
    end
  end
  if next == '' then
    if value then call('DEL', key) end
  elseif px == 0 or px >= 3155760000000 then -- 100 years
    call('SET', key, version .. next)
  else
    if px < 2147483648 then px = string.format('%d', px) end -- faster than how Redis formats a number
    call('PSETEX', key, px, version .. next)
  end
end
return { value, pack('>I4I4i4', hi, lo, count) }
