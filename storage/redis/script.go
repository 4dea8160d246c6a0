package redis

import (
	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
)

// px computes the PX of a record: its TTL or, if that is longer, the time that is left until
// Until by the server's clock. The clock is rounded down to ms, so the time that is left is
// rounded up. PSETEX refuses a number with an exponent, hence string.format. TIME is asked
// before any write, so a server that refuses it has written nothing.
const px = `
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

// single swaps one key. It compares the first 8 bytes of what is stored with
// the old version (an empty one: the key must be absent), and writes if they match. ARGV
// has the old version, the new record (empty: delete), the TTL in ms (empty: none) and the
// Until in ms since 1970 (empty: none). The answer is a list of 1, of what is stored, or of an
// error.
var single = newScript(px + `
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

// several swaps several keys if all match. ARGV has for each key what single has, and the answer
// is like that of single. An error that begins with TORN says that some keys are written.
//
// put writes one key; it returns an error of the server instead of raising it, once a write
// has been made. plain makes an error that the client can read past: it stops reading at
// those that it has a type for. MGET is quicker than a GET for each key, but takes what is
// no string for absent, and unpack has its limits.
var several = newScript(px + `
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

// script is what a server may know by its hash.
type script struct{ text, hash []byte }

func newScript(text string) *script {
	return &script{[]byte(text), []byte(redis.NewScript(text).Hash())}
}

// firstKey is where the keys of a script begin in its command.
const firstKey = 3

// begin fills in how the command of a script begins: its hash or its text, and the keys. So many arguments follow.
func (s *Store) begin(w *words, t *writeTracker, script *script, inFull bool, keys []string, arguments int) {
	name := "evalsha"
	t.text = script.hash
	if inFull {
		name, t.text = "eval", script.text
	}
	w.init(len(keys) + arguments)
	w.args = append(w.args, name, t, len(keys))
	for _, key := range keys {
		w.add(s.appendKey(w.text, key))
	}
	if s.plain == nil && len(keys) > 0 {
		w.args[firstKey] = string(w.each[0]) // which clients of a cluster place by what they print
	}
}

// unansweredBy is unanswered for a script, which may not have been sent.
func (s *Store) unansweredBy(t *writeTracker, err error) error {
	never := t.cancel()
	err = s.unanswered(err)
	if never {
		return storage.NotApplied(err)
	}
	return err
}
