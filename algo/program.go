package algo

import _ "embed"

// Portable is a policy whose methods Step, Refund and Charge can run on a database server as a
// program. A limiter then decides in one round trip, because the server itself reads the state
// and stores the next one. The methods in Go are the definition: the tests of internal/program
// compare the programs with them.
type Portable interface {
	Policy
	// Program returns the program. ok is false if the policy has none. The policy then runs in Go.
	Program() (p Program, ok bool)
}

// Program is the methods Step, Refund and Charge of a policy in the languages of database servers.
//
// A program computes the next state from an encoded state, a time, a cost and its arguments.
// The next state has the same bytes as that of the policy's Step, Refund or Charge. There is one
// exception: if the state changes and the key becomes like a new key, the next state is empty. A
// program is pure: it reads no clock and no other key, and it writes nothing.
//
// # Lua
//
// Lua is a chunk of Lua 5.1 that uses the library struct of Redis. It is run after
// [LuaPrelude] and returns a function:
//
//	function(op, state, now, cost, times, args) ... return count, next, ttl end
//
// The parameters are:
//
//   - op is "allow", "refund" or "charge".
//   - state is the encoded state, empty for a new key.
//   - now is the time in microseconds, as [Instant] returns it.
//   - cost is from 1 to [MaxLevel]. A higher cost is passed as MaxLevel, because it means the same.
//   - times is how many requests of that cost are decided, one after the other at that time.
//     It is 1 for a refund and a charge.
//   - args are Args.
//
// The results are:
//
//   - count is how many of the requests are allowed, from 0 to times. These are always the
//     first requests. For a refund and a charge, count is 1.
//     It is DAMAGED (-1) if the policy's Step returns an error for state. It is DECLINED (-2) if the
//     state was written under another limit and the program cannot convert it; the request is then decided in Go.
//     LuaPrelude defines both names.
//   - next is the state after all requests. If nothing changed, it equals state. Otherwise it is empty if
//     the key is like a new key.
//   - ttl is Result.ResetAfter of the last allowed request, in microseconds; nil means 0. If count is 0, next and ttl have no
//     meaning: the limiter evaluates the denial in Go, and stores what it changes.
//
// # SQL
//
// SQL is the body of an immutable function in PL/pgSQL of PostgreSQL 12 or later, from DECLARE or
// BEGIN to END:
//
//	function(op int, INOUT state bytea, now bigint, cost bigint, INOUT times bigint, args bigint[], OUT ttl bigint)
//
// op is 0 for "allow", 1 for "refund" and 2 for "charge". state is not null. now is the
// time, as [Instant] returns it. The other parameters are those of Lua. So are the results: the
// function assigns count to times, next to state and ttl to ttl. A ttl of NULL means 0. The function must
// not fail.
type Program struct {
	Name string  // identifies Lua and SQL: if two programs differ in these, their names must differ
	Lua  string  // the code in Lua; empty if there are Parts
	SQL  string  // the code in PL/pgSQL; empty if there are Parts, or if Postgres cannot run it
	Args []int64 // the options; each is above -2^53 and below 2^53

	// Parts are the programs of the parts of a compose.Stack. It allows a request if all parts
	// allow it. compose.Stack documents the encoding of its state.
	Parts []Program
}

//go:embed prelude.lua
var luaPrelude string

// LuaPrelude returns the functions that the Lua code of every [Program] uses. Put them before that
// code.
func LuaPrelude() string { return luaPrelude }
