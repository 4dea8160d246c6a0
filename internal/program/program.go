// Package program combines the programs of policies into Lua scripts for Redis and functions for
// PostgreSQL.
package program

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/algo"
)

var (
	//go:embed stack.lua
	stackLua string
	//go:embed read.lua
	readLua string
)

// Lua returns a script that ends with body. body can use [algo.LuaPrelude], and the function read, which decodes the
// result of [AppendArgs] for the given programs and for stacks of them:
//
//	p, from = read(s, from)
//	count, next, ttl = p.run(op, state, now, cost, times, p)      -- see algo.Program; p has the arguments
//
// Lua returns an error if two programs have the same name and different code.
func Lua(body string, programs ...*algo.Program) (string, error) {
	texts, err := collect(AppendLeaves(nil, programs...), func(p *algo.Program) string { return p.Lua })
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(algo.LuaPrelude() + "local programs = {}\n")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&b, "programs[%q] = function(op, state, now, cost, times, args)\n%s\nend\n", name, texts[name])
	}
	if slices.ContainsFunc(programs, IsStack) {
		b.WriteString(stackLua)
	}
	b.WriteString(readLua + body)
	return b.String(), nil
}

// IsStack reports whether a program consists of others.
func IsStack(p *algo.Program) bool { return len(p.Parts) > 0 }

// AppendLeaves appends programs, with stacks replaced by their parts.
func AppendLeaves(dst []*algo.Program, programs ...*algo.Program) []*algo.Program {
	for _, p := range programs {
		if !IsStack(p) {
			dst = append(dst, p)
		}
		for i := range p.Parts {
			dst = AppendLeaves(dst, &p.Parts[i])
		}
	}
	return dst
}

// Every reports whether test is true for a program, or for each part of a stack.
func Every(p *algo.Program, test func(*algo.Program) bool) bool {
	for i := range p.Parts {
		if !Every(&p.Parts[i], test) {
			return false
		}
	}
	return IsStack(p) || test(p)
}

// stackName is the name of stacks in encoded arguments. No program may have this name.
const stackName = "all"

// collect returns the code of each program by its name.
func collect(programs []*algo.Program, text func(*algo.Program) string) (map[string]string, error) {
	texts := map[string]string{}
	for _, p := range programs {
		switch known, ok := texts[p.Name]; {
		case p.Name == "" || p.Name == stackName || text(p) == "":
			return nil, fmt.Errorf("program: a program needs code and a name other than %q, got the name %q", stackName, p.Name)
		case ok && known != text(p):
			return nil, fmt.Errorf("program: two different programs have the name %q", p.Name)
		}
		texts[p.Name] = text(p)
	}
	return texts, nil
}

// AppendArgs appends the encoded arguments of a program. The Lua function read decodes them.
func AppendArgs(dst []byte, p *algo.Program) []byte {
	name, n := p.Name, len(p.Args)
	if IsStack(p) {
		name, n = stackName, len(p.Parts)
	}
	dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(name))), name...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	dst = append(binary.BigEndian.AppendUint16(dst, uint16(1+2*len(p.Args))), '>') // the format of the arguments
	for range p.Args {
		dst = append(dst, "i8"...)
	}
	for i := range p.Parts {
		dst = AppendArgs(dst, &p.Parts[i])
	}
	for _, arg := range p.Args {
		dst = binary.BigEndian.AppendUint64(dst, uint64(arg))
	}
	return dst
}
