package algo

import (
	_ "embed"
	"slices"
)

// Portable is a policy whose Step, Refund and Charge can also run on a database server, in one round trip. The methods in Go
// are the definition.
type Portable interface {
	Policy
	// Program returns ok false if the policy runs in Go.
	Program() (p Program, ok bool)
}

// Program is Step, Refund and Charge of a policy in the languages of database servers. It reads no clock and no other key.
//
// A program computes the same bytes as the method in Go. But if the state changes and the key becomes like a new key, next is
// empty. A limiter verifies count, but not next and ttl. So test these on the server.
//
// # Lua
//
// Lua is the body of a function in Lua 5.1. It can use the library struct of Redis and the names that [LuaPrelude] defines.
//
//	function(op, state, now, cost, times, args) ... return count, next, ttl end
//
// The parameters and results are:
//
//   - op: "allow", "refund" or "charge"
//   - state: empty for a new key
//   - now: as [Instant] returns it
//   - cost: from 1 to [MaxLevel], which stands for any higher cost
//   - times: how many requests of that cost to decide, one after the other; 1 for a refund or a charge
//   - args: Args
//   - count: how many requests are allowed, always the first ones; 1 for a refund or a charge. DAMAGED (-1) means that Step would
//     return an error for state. DECLINED (-2) means that Go decides, for instance on a state of another limit
//   - next: the state after all requests
//   - ttl: Result.ResetAfter of the last allowed request, in microseconds; nil means 0
//
// If count is 0, next and ttl are ignored: the limiter evaluates the denial in Go.
//
// # SQL
//
// SQL is the body of an immutable function in PL/pgSQL of PostgreSQL 12 or later, from DECLARE or BEGIN to END. It must not fail.
//
//	function(op int, INOUT state bytea, now bigint, cost bigint, INOUT times bigint, args bigint[], OUT ttl bigint)
//
// op is 0 for "allow", 1 for "refund" and 2 for "charge". state is not null. The function assigns count to times, and next to
// state. A ttl of NULL means 0. The rest is as in Lua.
type Program struct {
	Name string  // different for different Lua or SQL
	Lua  string  // empty if there are Parts
	SQL  string  // empty if there are Parts, or PostgreSQL cannot run it
	Args []int64 // the options, each above -2^53 and below 2^53

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
