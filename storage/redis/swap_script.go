package redis

import "github.com/redis/go-redis/v9"

// expiryLua computes the expiry of a record in ms: its TTL or, if that is longer, the time from now
// until Until by the server's clock. The clock is rounded down to ms, so that time is rounded up.
// string.format is needed because PSETEX refuses a number with an exponent. The scripts call TIME
// before any write, so a server that refuses TIME has written nothing.
const expiryLua = `
local function clock()
	local time = redis.call('TIME')
	return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function px(ttl, till, now)
	if till == '' or till - now <= ttl + 0 then
		return ttl
	end
	return string.format('%.0f', till - now)
end
`

// swapOne swaps one key. It compares the first 8 bytes of the value with the old version, and
// writes if they are equal. ARGV has the old version (empty: the key must be absent), the new record
// (empty: delete the key), the TTL in ms (empty: none) and Until in ms since 1970 (empty: none). The
// reply is a list with one element: 1 after a swap, the list of the stored value after a
// conflict, or an error.
var swapOne = newScript(expiryLua + `
local old, new, ttl, till = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
	return {{err = 'ERR ' .. string.gsub(value.err, '^ERR ', '')}}
elseif value and (old == '' or string.sub(value, 1, 8) ~= old) or not value and old ~= '' then
	return {{value}}
elseif new ~= '' and ttl ~= '' then
	redis.call('PSETEX', KEYS[1], till ~= '' and px(ttl, till, clock()) or ttl, new)
elseif new ~= '' then
	redis.call('SET', KEYS[1], new)
elseif old ~= '' then
	redis.call('DEL', KEYS[1])
end
return {1}
`)

// swapSeveral swaps several keys if all versions match. ARGV has the four arguments of swapOne for
// each key, and the reply has the form of swapOne. An error that begins with TORN means that some
// keys were written.
//
// put writes one key. After the first write it returns errors of the server instead of raising them.
// plain adds ERR to an error. The client has types for some errors and would stop reading the list
// at them. MGET is faster than a GET for each key, but it returns nil for a value that is not a
// string, and unpack takes a limited number of keys.
var swapSeveral = newScript(expiryLua + `
local run, now = redis.call, clock()
local function put(key, old, new, ttl, till)
	local reply
	if new ~= '' and ttl ~= '' then
		reply = run('PSETEX', key, px(ttl, till, now), new)
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
local function plain(prefix, err)
	return {err = 'ERR ' .. prefix .. string.gsub(err, '^ERR ', '')}
end

local values, found, same = #KEYS < 1000 and redis.call('MGET', unpack(KEYS)) or {}, {}, true
for i, key in ipairs(KEYS) do
	local value, old = values[i] or redis.pcall('GET', key), ARGV[4*i - 3]
	if type(value) == 'table' then
		return {plain('', value.err)}
	elseif not value then
		same = same and old == ''
	else
		same = same and old ~= '' and string.sub(value, 1, 8) == old
	end
	found[i] = value
end
if not same then
	return {found}
end
local begun = ''
for i, key in ipairs(KEYS) do
	local at = 4*i - 3
	local old, new = ARGV[at], ARGV[at+1]
	local err = put(key, old, new, ARGV[at+2], ARGV[at+3])
	if err then
		return {plain(begun, err)}
	elseif old ~= '' or new ~= '' then
		begun = 'TORN '
	end
end
return {1}
`)

// script is a Lua script and its SHA-1 hash.
type script struct{ text, hash []byte }

func newScript(text string) *script {
	return &script{[]byte(text), []byte(redis.NewScript(text).Hash())}
}

// firstKey is the index of the first key in the command of a script.
const firstKey = 3

// begin adds the beginning of a script's command: its hash or its text, and the keys. It allocates
// memory for this many further arguments.
func (s *Store) begin(w *arguments, t *writeTracker, script *script, inFull bool, keys []string, further int) {
	name := "evalsha"
	t.text = script.hash
	if inFull {
		name, t.text = "eval", script.text
	}
	w.init(len(keys) + further)
	w.args = append(w.args, name, t, len(keys))
	for _, key := range keys {
		w.add(s.appendKey(w.text, key))
	}
	if s.single == nil && len(keys) > 0 {
		w.args[firstKey] = string(w.each[0]) // clients of several servers choose the server by the text of this argument
	}
}
