// Package program combines the programs of policies into Lua scripts for Redis and functions for
// PostgreSQL.
package program

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"maps"
	"regexp"
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

// Lua returns a script that ends with body. The script begins with the definitions that body uses. body
// can use the functions of [algo.LuaPrelude], and the function read, which decodes the result of
// [AppendArgs] for the given programs and for stacks of them:
//
//	p, from = read(s, from)
//	count, next, ttl = p.run(op, state, hi, lo, cost, times, p.args)      -- see algo.Program
//
// Lua returns an error if two programs have the same name and different code.
func Lua(body string, programs ...algo.Program) (string, error) {
	texts, err := collect(leaves(programs), luaOf)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("local programs = {}\n")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&b, "programs[%q] = %s\n", name, valueOf(texts[name]))
	}
	if slices.ContainsFunc(programs, func(p algo.Program) bool { return len(p.Parts) > 0 }) {
		b.WriteString(stackLua)
	}
	b.WriteString(readLua + body)
	return withPrelude(b.String()), nil
}

// LuaOf is Lua for one program, which must not be a stack. Instead of read, body can use the function
// of the program:
//
//	count, next, ttl = program(op, state, hi, lo, cost, times, args)
func LuaOf(p algo.Program, body string) (string, error) {
	if _, err := collect(leaves([]algo.Program{p}), luaOf); err != nil || len(p.Parts) > 0 {
		return "", err
	}
	return withPrelude("local program = " + valueOf(p.Lua) + "\n" + body), nil
}

func luaOf(p algo.Program) string { return p.Lua }

var onlyReturn = regexp.MustCompile(`^(?:--.*\n|\s*\n)*return `)

// valueOf returns an expression for the value that a Lua chunk returns.
func valueOf(chunk string) string {
	if start := onlyReturn.FindString(chunk); start != "" {
		return chunk[len(start):]
	}
	return "(function()\n" + chunk + "\nend)()"
}

// withPrelude puts the functions of the prelude that a script uses before the script. Redis creates all
// functions of a script at each run, so unused functions would cost time.
func withPrelude(script string) string {
	functions, inline := splitConstants(parseDefinitions(algo.LuaPrelude()))
	return inline(strings.Join(neededBy(functions, script), "") + script)
}

// stackName is the name of stacks in encoded arguments. No program may have this name.
const stackName = "all"

// leaves returns the programs, with stacks replaced by their parts.
func leaves(programs []algo.Program) (all []algo.Program) {
	for _, p := range programs {
		if len(p.Parts) > 0 {
			all = append(all, leaves(p.Parts)...)
		} else {
			all = append(all, p)
		}
	}
	return all
}

// collect returns the code of each program by its name.
func collect(programs []algo.Program, text func(algo.Program) string) (map[string]string, error) {
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
	if len(p.Parts) > 0 {
		dst = appendHead(dst, stackName, len(p.Parts))
		for i := range p.Parts {
			dst = AppendArgs(dst, &p.Parts[i])
		}
		return dst
	}
	dst = appendHead(dst, p.Name, len(p.Args))
	for _, arg := range p.Args {
		dst = binary.BigEndian.AppendUint64(dst, uint64(arg))
	}
	return dst
}

func appendHead(dst []byte, name string, n int) []byte {
	dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(name))), name...)
	return binary.BigEndian.AppendUint16(dst, uint16(n))
}
