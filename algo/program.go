package algo

import (
	_ "embed"
	"slices"
)

// Portable is a policy whose methods Step, Refund and Charge can also run on a database server. A limiter then
// decides in one round trip. The methods in Go are the definition.
type Portable interface {
	Policy
	// Program returns the program. If ok is false, there is none, and the policy runs in Go.
	Program() (p Program, ok bool)
}

// Program is Step, Refund and Charge of a policy in the languages of database servers.
//
// A program computes the same bytes as the method in Go, except that the next state is empty if the state changes and the
// key becomes like a new key. It reads no clock and no other key, and writes nothing. A limiter verifies count, but not next
// and ttl. So test these on the server.
//
// # Lua
//
// Lua is the body of a function in Lua 5.1. It can use the library struct of Redis and the names that [LuaPrelude] defines.
// It ends with a return:
//
//	function(op, state, now, cost, times, args) ... return count, next, ttl end
//
// The parameters and results are:
//
//   - op: "allow", "refund" or "charge".
//   - state: the encoded state, empty for a new key.
//   - now: the time, as [Instant] returns it.
//   - cost: from 1 to [MaxLevel], which stands for any higher cost.
//   - times: how many requests of that cost to decide, one after the other; 1 for a refund or a charge.
//   - args: Args.
//   - count: how many requests are allowed, always the first ones; 1 for a refund or a charge. DAMAGED (-1)
//     means that Step would return an error for state. DECLINED (-2) means that the program cannot convert
//     a state of another limit, so Go decides. LuaPrelude defines both names.
//   - next: the state after all requests.
//   - ttl: Result.ResetAfter of the last allowed request, in microseconds; nil means 0.
//
// If count is 0, next and ttl are ignored: the limiter evaluates the denial in Go, and stores what it changes.
//
// # SQL
//
// SQL is the body of an immutable function in PL/pgSQL of PostgreSQL 12 or later, from DECLARE or
// BEGIN to END:
//
//	function(op int, INOUT state bytea, now bigint, cost bigint, INOUT times bigint, args bigint[], OUT ttl bigint)
//
// op is 0 for "allow", 1 for "refund" and 2 for "charge". state is not null. The function assigns count to
// times, and next to state. A ttl of NULL means 0. The rest is as in Lua. The function must not fail.
type Program struct {
	Name string  // identifies the code: programs with different Lua or SQL must have different names
	Lua  string  // empty if there are Parts
	SQL  string  // empty if there are Parts, or if PostgreSQL cannot run the program
	Args []int64 // the options; each is above -2^53 and below 2^53

	// Parts are the programs of the parts of a compose.Stack, in the order of their states.
	Parts []Program
}

// Equal reports whether two programs have the same name, code and arguments.
func (p *Program) Equal(other *Program) bool {
	return p == other || p.Name == other.Name && p.Lua == other.Lua && p.SQL == other.SQL && slices.Equal(p.Args, other.Args) &&
		slices.EqualFunc(p.Parts, other.Parts, func(a, b Program) bool { return a.Equal(&b) })
}

//go:embed prelude.lua
var luaPrelude string

// LuaPrelude returns the Lua code that must precede that of a [Program].
func LuaPrelude() string { return luaPrelude }
