-- This script replaces the records of keys if all versions match. A version is the first 8 bytes of a value.
--
-- ARGV has three arguments for each key: the old version (empty: the key must be absent), the new record
-- (empty: delete the key), and the TTL in ms (empty: none). The first element of the reply is one of
--
--   SWAPPED
--   CONFLICT  followed by the stored values
--   NORECORD  followed by the number of a key whose value is not a record
--   ERROR     followed by an error of the server. If it begins with PARTIAL, some keys were written.

local run = redis.call

-- put writes one key. After the first write it returns errors of the server instead of raising them.
local function put(key, old, new, ttl)
	local reply
	if new ~= '' and ttl ~= '' then
		reply = run('PSETEX', key, ttl, new)
	elseif new ~= '' then
		reply = run('SET', key, new)
	elseif old ~= '' then
		reply = run('DEL', key)
	else
		return
	end
	run = redis.pcall
	return type(reply) == 'table' and reply.err
end

-- MGET is faster than a GET for each key, but it returns nil for a value that is not a string, and
-- unpack takes a limited number of keys.
local n = #KEYS
local values, found, same = n > 1 and n < 1000 and redis.call('MGET', unpack(KEYS)) or {}, {'CONFLICT'}, true
for i, key in ipairs(KEYS) do
	local value, old = values[i] or redis.pcall('GET', key), ARGV[3*i - 2]
	if type(value) == 'table' then
		return {'ERROR', value.err}
	elseif not value then
		same = same and old == ''
	else
		local version = string.sub(value, 1, 8)
		if #version < 8 or version == '\0\0\0\0\0\0\0\0' then
			return {'NORECORD', tostring(i)}
		end
		same = same and version == old
	end
	found[i + 1] = value
end
if not same then
	-- This changes nothing, but it fails if the server refuses writes. A probe of the circuit breaker relies on that.
	redis.call('SET', KEYS[1], '', found[2] and 'NX' or 'XX')
	return found
end
local begun = ''
for i, key in ipairs(KEYS) do
	local at = 3*i - 2
	local old, new = ARGV[at], ARGV[at+1]
	local err = put(key, old, new, ARGV[at+2])
	if err then
		return {'ERROR', begun .. err}
	elseif old ~= '' or new ~= '' then
		begun = 'PARTIAL '
	end
end
return {'SWAPPED'}
