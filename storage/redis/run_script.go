package redis

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
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
	mu     sync.Mutex
	cached map[string]*script // by the kind of the script and the names of its programs
}

// get returns the script for batches of these programs. If one is true, it is run_one.lua. It returns
// an error if one name has two programs.
func (s *scripts) get(programs []*algo.Program, one bool) (found *script, err error) {
	var leafBuffer [8]*algo.Program
	var keyBuffer [64]byte
	leaves := sortedLeaves(leafBuffer[:0], programs)
	key := append(keyBuffer[:0], flag(one), flag(slices.ContainsFunc(programs, program.IsStack)))
	if one {
		key = strconv.AppendInt(key, int64(len(leaves[0].Args)), 10)
	}
	for _, p := range leaves {
		key = append(append(key, 0), p.Name...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found = s.cached[string(key)]
	if found == nil {
		if found, err = newRunScript(programs, leaves, one); err != nil {
			return nil, err
		}
		if s.cached == nil {
			s.cached = map[string]*script{}
		}
		s.cached[string(key)] = found
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

func newRunScript(programs, leaves []*algo.Program, one bool) (made *script, err error) {
	var text string
	if one {
		text, err = program.LuaOf(leaves[0], strings.ReplaceAll(runOneLua, "ARGS", ">"+strings.Repeat("i8", len(leaves[0].Args))))
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
