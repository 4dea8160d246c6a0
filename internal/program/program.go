// Package program puts the programs of policies together into scripts for servers.
package program

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/algo"
)

//go:embed stack.lua
var stackLua string

// Lua returns the beginning of a script that can run the given programs, and stacks of them. It
// defines two functions for the rest of the script:
//
//	program, from = read(list, from)                                    -- what AppendArgs made
//	count, next, ttl = step(program, op, state, hi, lo, cost, times)    -- as algo.Program says
//
// Two programs with the same name and another text are an error.
func Lua(programs ...algo.Program) (string, error) {
	texts := map[string]string{}
	if err := collect(texts, programs); err != nil {
		return "", err
	}
	var names []string
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(algo.LuaPrelude())
	b.WriteString("\nlocal programs = {}\n")
	for _, name := range names {
		fmt.Fprintf(&b, "programs[%q] = (function()\n%s\nend)()\n", name, texts[name])
	}
	b.WriteString(stackLua)
	return b.String(), nil
}

// stack is the name under which a stack is sent. No program may have it.
const stack = "all"

func collect(texts map[string]string, programs []algo.Program) error {
	for _, p := range programs {
		if len(p.Parts) > 0 {
			if err := collect(texts, p.Parts); err != nil {
				return err
			}
			continue
		}
		switch text, ok := texts[p.Name]; {
		case p.Name == "" || p.Name == stack || p.Lua == "":
			return fmt.Errorf("program: %q is no program: it needs a name other than %q, and a text", p.Name, stack)
		case ok && text != p.Lua:
			return fmt.Errorf("program: two different programs have the name %q", p.Name)
		}
		texts[p.Name] = p.Lua
	}
	return nil
}

// AppendArgs appends a program as the arguments of a script.
func AppendArgs(dst []string, p algo.Program) []string {
	if len(p.Parts) > 0 {
		dst = append(dst, stack, strconv.Itoa(len(p.Parts)))
		for _, part := range p.Parts {
			dst = AppendArgs(dst, part)
		}
		return dst
	}
	dst = append(dst, p.Name, strconv.Itoa(len(p.Args)))
	for _, arg := range p.Args {
		dst = append(dst, strconv.FormatInt(arg, 10))
	}
	return dst
}
