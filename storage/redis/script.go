package redis

import (
	"errors"
	"fmt"

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

// common is the start of the scripts of several keys. put writes one key; it returns an
// error of the server instead of raising it, once a write has been made. plain makes an
// error that the client can read past: it stops reading at those that it has a type for.
const common = px + `
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

local values, outcomes = #KEYS < 1000 and redis.call('MGET', unpack(KEYS)) or {}, {}
`

// single swaps one group of one key. It compares the first 8 bytes of what is stored with
// the old version (an empty one: the key must be absent), and writes if they match. ARGV
// has the old version, the new record (empty: delete), the TTL in ms (empty: none) and the
// Until in ms since 1970 (empty: none). The answer has 1, or what is stored, or an error.
// It does without what is common to the others, which would take the server a quarter more
// time.
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

// each is single for several groups. ARGV has for each what single has, and so has the
// answer.
//
// MGET is quicker than a GET for each, but takes what is no string for absent, and
// unpack has its limits.
var each = newScript(common + `
for i, key in ipairs(KEYS) do
	local at = 4*i - 3
	local value, old = values[i] or redis.pcall('GET', key), ARGV[at]
	if type(value) == 'table' then
		outcomes[i] = plain('', value.err)
	elseif value and old ~= '' and string.sub(value, 1, 8) == old or not value and old == '' then
		local err = put(key, old, ARGV[at+1], ARGV[at+2], ARGV[at+3])
		outcomes[i] = err and plain('', err) or 1
	else
		outcomes[i] = {value}
	end
end
return outcomes
`)

// together is each for groups of any size, and writes one when all its keys match. ARGV
// has for each group how many keys it has, and then what it has in each. An error that
// begins with TORN is one whose group is written in part.
var together = newScript(common + `
local first, arg = 1, 1
while ARGV[arg] do
	local last = first + ARGV[arg] - 1
	local found, same = {}, true
	for i = first, last do
		local value, old = values[i] or redis.pcall('GET', KEYS[i]), ARGV[arg + 4*(i-first) + 1]
		if type(value) == 'table' then
			found, same = plain('', value.err), false
			break
		elseif not value then
			same = same and old == ''
		else
			same = same and old ~= '' and string.sub(value, 1, 8) == old
		end
		found[i-first+1] = value
	end
	if same then
		found = 1
		local begun = ''
		for i = first, last do
			local at = arg + 4*(i-first) + 1
			local old, new = ARGV[at], ARGV[at+1]
			local err = put(KEYS[i], old, new, ARGV[at+2], ARGV[at+3])
			if err then
				found = plain(begun, err)
				break
			elseif old ~= '' or new ~= '' then
				begun = 'TORN '
			end
		end
	end
	outcomes[#outcomes+1] = found
	first, arg = last + 1, arg + 4*(last-first+1) + 1
end
return outcomes
`)

// script is what a server may know by its hash.
type script struct{ text, hash []byte }

func newScript(text string) *script {
	return &script{[]byte(text), []byte(redis.NewScript(text).Hash())}
}

// call is one group on its way.
type call struct {
	store   *Store
	swaps   []storage.Swap
	outcome *storage.Outcome
}

// settle reads the script's answer for the group.
func (c *call) settle(reply any) {
	switch reply := reply.(type) {
	case int64:
		c.outcome.Swapped = true
	case []any:
		c.conflict(reply)
	case error:
		c.outcome.Err = c.store.failed(reply)
	default:
		c.outcome.Err = c.store.failed(errAnswer)
	}
}

var errAnswer = errors.New("the script's answer has another shape")

// conflict takes in what is stored.
func (c *call) conflict(found []any) {
	if len(found) != len(c.swaps) {
		c.outcome.Err = c.store.failed(errAnswer)
		return
	}
	current := make([]storage.Record, len(found))
	for i := range found {
		value, ok := found[i].(string)
		if !ok {
			continue
		}
		r, err := decode([]byte(value))
		if err != nil {
			c.outcome.Err = storage.NotApplied(fmt.Errorf("%w: key %q", err, c.store.key(c.swaps[i].Key)))
			return
		}
		current[i] = r
	}
	c.outcome.Current = current
}
