-- What the Lua programs of the algorithms share. They need Lua 5.1 with the library struct, as in Redis. Lua computes
-- with doubles, in which whole numbers below 2^53 are exact. The quotient of two whole numbers below 2^52 is rounded, but
-- never to another whole number or past one, so floor and ceil of it are exact, too.
local floor, ceil, min, max, concat = math.floor, math.ceil, math.min, math.max, table.concat
local pack, unpack, byte, sub, char = struct.pack, struct.unpack, string.byte, string.sub, string.char
local DAMAGED, DECLINED = -1, -2
local MAX = 4503599627370495 -- 2^52 - 1
