// Package program puts the programs of policies together for servers: into a script for Redis, and
// into functions for PostgreSQL.
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

// Lua returns a script that begins with what body needs, and ends with body. body can use the functions of
// [algo.LuaPrelude], and one more that reads the given programs and stacks of them:
//
//	p, from = read(s, from)                                               -- what AppendArgs made
//	count, next, ttl = p.run(op, state, hi, lo, cost, times, p.args)      -- as algo.Program says
//
// Two programs with the same name and another text are an error.
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

// LuaOf is Lua for the one program p, which is no stack. Instead of read and step, body can use the function that
// the text of the program returns:
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

// valueOf returns an expression for what a chunk of Lua returns.
func valueOf(chunk string) string {
	if start := onlyReturn.FindString(chunk); start != "" {
		return chunk[len(start):]
	}
	return "(function()\n" + chunk + "\nend)()"
}

// withPrelude puts those functions of the prelude before a script that it needs. A server makes
// all functions of a script anew at each run, so the others would cost time.
func withPrelude(script string) string {
	functions, inline := inlined(definitions(algo.LuaPrelude()))
	return inline(strings.Join(needed(functions, script), "") + script)
}

// stack is the name under which a stack is sent. No program may have it.
const stack = "all"

// leaves returns programs, with the parts of stacks instead of the stacks.
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

// collect returns the text of each program by its name.
func collect(programs []algo.Program, text func(algo.Program) string) (map[string]string, error) {
	texts := map[string]string{}
	for _, p := range programs {
		switch known, ok := texts[p.Name]; {
		case p.Name == "" || p.Name == stack || text(p) == "":
			return nil, fmt.Errorf("program: %q is no program: it needs a name other than %q, and a text", p.Name, stack)
		case ok && known != text(p):
			return nil, fmt.Errorf("program: two different programs have the name %q", p.Name)
		}
		texts[p.Name] = text(p)
	}
	return texts, nil
}

// AppendArgs appends what the function read of Lua takes.
func AppendArgs(dst []byte, p *algo.Program) []byte {
	if len(p.Parts) > 0 {
		dst = appendHead(dst, stack, len(p.Parts))
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
