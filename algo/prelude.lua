-- Functions that the Lua programs of the algorithms share. They need Lua 5.1 with the library
-- struct, as in Redis.
--
-- A Lua number is a double, so whole numbers are exact below 2^53. A time needs more bits, so it
-- is two numbers of 32 bits. If a number is 2^53 or more, the program declines the request, and
-- the step runs in Go.

local DAMAGED, DECLINED = -1, -2

local EXACT = 9007199254740992 -- 2^53
local HALF = 4503599627370496  -- 2^52
local WORD = 4294967296        -- 2^32

local fmod = math.fmod -- is exact, and slower than the operator %, which is exact if a < 2^52
local byte = string.byte
local char = string.char
local sub = string.sub
local pack, unpack = struct.pack, struct.unpack

-- div returns floor(a / b), and the remainder.
local function div(a, b)
  local rest
  if a < HALF then rest = a % b else rest = fmod(a, b) end
  return (a - rest) / b, rest
end

-- ceildiv returns ceil(a / b).
local function ceildiv(a, b)
  local q, rest = div(a, b)
  if rest > 0 then q = q + 1 end
  return q
end

-- fitting returns how many of the requests fit into the units left: from 0 to times.
local function fitting(left, cost, times)
  if left < cost then return 0 end
  if times == 1 then return 1 end
  return math.min(times, (div(left, cost)))
end

-- since returns the nanoseconds from one time to another. It is exact below 2^53. A longer
-- time is returned as a number of at least 2^53.
local function since(hi, lo, from_hi, from_lo)
  return (hi - from_hi) * WORD + (lo - from_lo)
end

-- later adds ns nanoseconds to a time.
local function later(hi, lo, ns)
  local carry, rest = div(lo + ns, WORD)
  return hi + carry, rest
end

-- scaled returns floor(a * b / c) and the remainder, for b <= c < 2^51.
local function scaled(a, b, c)
  if a * b < EXACT then return div(a * b, c) end
  local base = 2
  if c < 281474976710656 then base = 16 end -- 2^48
  local digits = {}
  while a > 0 do
    local rest
    a, rest = div(a, base)
    digits[#digits + 1] = rest
  end
  local q, rest = 0, 0
  for i = #digits, 1, -1 do
    local more
    more, rest = div(rest * base + digits[i] * b, c)
    q = q * base + more
  end
  return q, rest
end

-- modulo returns the remainder of a time divided by m < 2^51 nanoseconds.
local function modulo(hi, lo, m)
  local base, digits = 65536, 2
  if m >= 562949953421312 then -- 2^49
    base, digits = 2, 32
  elseif m >= 137438953472 then -- 2^37
    base, digits = 16, 8
  end
  local rest, shift = fmod(hi, m), WORD
  for _ = 1, digits do
    shift = shift / base
    local digit
    digit, lo = div(lo, shift)
    rest = fmod(rest * base + digit, m)
  end
  return rest
end

-- uvarint decodes a number in base 128, lowest digit first, and returns it and the position after
-- it. It returns nothing if the bytes are not a number in its shortest form.
local function uvarint(s, from)
  local x, scale = 0, 1
  for i = from, from + 9 do
    local b = byte(s, i)
    if not b then return end
    if b < 128 then
      if b == 0 and i > from or i == from + 9 and b > 1 then return end
      return x + b * scale, i + 1
    end
    x = x + (b - 128) * scale
    scale = scale * 128
  end
end

-- touvarint encodes a number in base 128.
local function touvarint(x)
  local s = ''
  while x >= 128 do
    local rest
    x, rest = div(x, 128)
    s = s .. char(rest + 128)
  end
  return s .. char(x)
end

-- The upper 32 bits of the last instant, which is 2^62 - 1 nanoseconds.
local LAST = 1073741823

-- formats caches the formats of struct.unpack. The key is the third byte of a state: 16 * u + p.
local formats = {}

-- decode_usage decodes the state of gcra and tokenbucket: At, Used in u bytes, Part and Period in p bytes each.
-- It returns nil and the numbers, or DAMAGED or DECLINED. Unpacking rounds numbers of 2^53 or more, but
-- never below 2^53.
local function decode_usage(s, tag)
  local n = #s
  if n < 13 then return DAMAGED end
  local widths = byte(s, 3)
  local p = widths % 16
  local u = (widths - p) / 16
  if n ~= 11 + u + 2 * p or u > 8 or p > 8 or p == 0 then return DAMAGED end
  local format = formats[widths]
  if not format then
    format = '>I3I4I4I' .. char(48 + u, 73, 48 + p, 73, 48 + p) -- 48 is '0', and 73 is 'I'
    formats[widths] = format
  end
  local head, hi, lo, used, part, period = unpack(format, s)
  if head ~= tag * 65536 + 256 + widths or hi > LAST then return DAMAGED end
  if used >= EXACT or period >= EXACT then return DECLINED end
  if u > 0 and used < 256 ^ (u - 1) or period < 256 ^ (p - 1) or part >= period then return DAMAGED end
  return nil, hi, lo, used, part, period
end

-- encode_usage encodes a state that decode_usage decodes.
local function encode_usage(tag, hi, lo, used, part, period)
  local u, p, bound = 0, 0, 1
  while used >= bound do u, bound = u + 1, bound * 256 end
  if period < WORD then bound = 1 else p, bound = 4, WORD end
  while period >= bound do p, bound = p + 1, bound * 256 end
  local widths = 16 * u + p
  local format = formats[widths] or '>I3I4I4I' .. char(48 + u, 73, 48 + p, 73, 48 + p)
  return pack(format, tag * 65536 + 256 + widths, hi, lo, used, part, period)
end
