package algo

import _ "embed"

// Portable is a policy whose step a database server can run. A limiter then decides in one
// round trip, because the state need not travel to the step and back. The step in Go stays
// the truth: a server's answer is checked by it.
type Portable interface {
	Policy
	// Program returns the step as a program. ok is false if the options need arithmetic
	// that the program does not have; then the step runs in Go.
	Program() (p Program, ok bool)
}

// Program is the step of a policy in the languages of servers.
//
// A program maps an encoded state, the time, a cost and its arguments to the next state, byte for
// byte as the policy's Step, Refund and Charge do. It is pure: it reads no clock and no
// other key, and it writes nothing.
//
// # Lua
//
// Lua is a chunk of Lua 5.1, with the library struct of Redis, that follows [LuaPrelude] and
// returns a function
//
//	function(op, state, hi, lo, cost, times, args) ... return count, next, ttl end
//
// op is "allow", "refund" or "charge". state is the encoded state, empty for a key never seen.
// hi and lo are the upper and lower 32 bits of what [Instant] makes of the time. cost is at
// least 1 and below 2^53. args are Args. times is how many requests of that cost are decided, one
// after the other at that time; it is 1 for a refund and a charge.
//
// count is how many of the requests are allowed, the first ones: from 0 to times. It is DAMAGED
// for bytes that the policy's Step refuses with an error, and DECLINED if a number is
// too large for the program; then the step runs in Go. Otherwise next is the state after all
// requests: the very bytes of state if nothing changed, and empty for a key that is as never
// seen. If count is not 0, ttl is Result.ResetAfter of the last allowed request in
// nanoseconds; nil means 0. It is exact below 2^53, and otherwise at least 2^53.
//
// # SQL
//
// SQL is the body of an immutable function in PL/pgSQL of PostgreSQL 12 or later, from DECLARE or
// BEGIN to END:
//
//	function(op int, state bytea, at bigint, cost bigint, times bigint, args bigint[]) returns bytea
//
// op is 0 for "allow", 1 for "refund" and 2 for "charge". state is not null. at is what
// [Instant] makes of the time. The other parameters are those of Lua. The
// function returns count, next and ttl, which mean the same as in Lua, as
//
//	int8send(count) || int8send(ttl) || next
//
// or int8send(count) alone if ttl is 0 and next is empty. DAMAGED is -1 and DECLINED is -2. The
// function must not fail: it declines a number before it overflows.
type Program struct {
	Name string  // identifies Lua and SQL; no other texts have this name
	Lua  string  // the step; empty if it is made of Parts
	SQL  string  // the same step; empty if it is made of Parts, or if Postgres cannot run it
	Args []int64 // the options, each below 2^53 either way

	// Parts make this the program of a stack: it allows what all parts allow. Its state is
	// encoded as compose.Stack says.
	Parts []Program
}

// MaxExact is the bound below which the programs in Lua compute exactly: 2^53.
const MaxExact = 1 << 53

//go:embed prelude.lua
var luaPrelude string

// LuaPrelude returns the functions that the programs in Lua share. They come before any program.
func LuaPrelude() string { return luaPrelude }
