package redis

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/program"
)

var (
	//go:embed run.lua
	runLua string
	//go:embed run_one.lua
	runOneLua string
)

// Runs implements [driver.Server]. It reports whether the program has a Lua form.
func (s *Store) Runs(p *algo.Program) bool {
	return program.Every(p, func(p *algo.Program) bool { return p.Name != "" && p.Lua != "" })
}

// scripts caches the scripts that decide batches.
type scripts struct {
	mu     sync.RWMutex
	cached map[scriptKey]*script
}

// scriptKey identifies a script.
type scriptKey struct {
	names  string // of its programs
	stacks bool   // whether the programs are parts of stacks
	one    bool   // whether it is made from run_one.lua
	args   int    // the number of arguments of the program in run_one.lua
}

// get returns the script for batches of these programs. If one is true, it is run_one.lua. It returns
// an error if one name has two programs.
func (s *scripts) get(programs []*algo.Program, one bool) (*script, error) {
	var buffer [8]*algo.Program
	leaves, names := sortedLeaves(buffer[:0], programs), make([]string, 0, len(buffer))
	for _, p := range leaves {
		names = append(names, p.Name)
	}
	key := scriptKey{names: strings.Join(names, "\x00"), one: one, stacks: slices.ContainsFunc(programs, program.IsStack)}
	if one {
		key.args = len(leaves[0].Args)
	}
	s.mu.RLock()
	found := s.cached[key]
	s.mu.RUnlock()
	if found == nil {
		var err error
		if found, err = newRunScript(programs, leaves, key); err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.cached == nil {
			s.cached = map[scriptKey]*script{}
		}
		s.cached[key] = found
	}
	for i, p := range leaves {
		if found.programs[i] != p.Lua {
			return nil, fmt.Errorf("two different programs have the name %q", p.Name)
		}
	}
	return found, nil
}

// sortedLeaves appends the distinct programs that are not stacks, sorted by name.
func sortedLeaves(dst, programs []*algo.Program) []*algo.Program {
	dst = program.AppendLeaves(dst, programs...)
	slices.SortFunc(dst, func(a, b *algo.Program) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(dst, func(a, b *algo.Program) bool { return a.Name == b.Name && a.Lua == b.Lua })
}

func newRunScript(programs, leaves []*algo.Program, key scriptKey) (made *script, err error) {
	var text string
	if key.one {
		text, err = program.LuaOf(leaves[0], strings.ReplaceAll(runOneLua, "ARGS", ">"+strings.Repeat("i8", key.args)))
	} else {
		text, err = program.Lua(runLua, programs...)
	}
	if err != nil {
		return nil, err
	}
	made = newScript(text)
	for _, p := range leaves {
		made.programs = append(made.programs, p.Lua)
	}
	return made, nil
}
