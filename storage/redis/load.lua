-- This script reads the records of keys. The reply has the time of the server in us, and for each key its value and its TTL
-- in ms, as PTTL returns it.

local time = redis.call('TIME')
local reply = { string.format('%.0f', time[1] * 1000000 + time[2]) }
for _, key in ipairs(KEYS) do
	local value = redis.call('GET', key)
	reply[#reply + 1] = value
	reply[#reply + 1] = value and string.format('%.0f', redis.call('PTTL', key)) or ''
end
return reply
