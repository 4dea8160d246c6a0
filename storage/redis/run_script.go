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

//go:embed run.lua
var runLua string

// Runs implements [driver.Server]. It reports whether the program has a Lua form.
func (s *Store) Runs(p *algo.Program) bool {
	for i := range p.Parts {
		if !s.Runs(&p.Parts[i]) {
			return false
		}
	}
	return len(p.Parts) > 0 || p.Name != "" && p.Lua != ""
}

// scripts caches the scripts that decide batches.
type scripts struct {
	mu     sync.RWMutex
	lua    map[string]string // the Lua form of each program, by name
	cached map[scriptKey]*script
}

// scriptKey identifies a script.
type scriptKey struct {
	names  string // of its programs
	stacks bool   // whether the programs are parts of stacks
	one    bool   // whether it is made from run_one.lua
	args   int    // the number of arguments of the program in run_one.lua
}

// get returns the script for batches of these programs. If one is true, it is run_one.lua.
func (s *scripts) get(programs []*algo.Program, one bool) (*script, error) {
	var buffer [8]*algo.Program
	leaves := appendLeaves(buffer[:0], programs)
	key := scriptKey{names: joinNames(leaves), stacks: slices.ContainsFunc(programs, isStack), one: one}
	if one {
		key.args = len(leaves[0].Args)
	}
	s.mu.RLock()
	found, err := s.find(leaves, key)
	s.mu.RUnlock()
	if found != nil || err != nil {
		return found, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, err := s.find(leaves, key); found != nil || err != nil { // another goroutine was first
		return found, err
	}
	made, err := newRunScript(programs, one)
	if err == nil {
		s.add(leaves, key, made)
	}
	return made, err
}

func isStack(p *algo.Program) bool { return len(p.Parts) > 0 }

// appendLeaves appends the distinct programs that are not stacks, sorted by name.
func appendLeaves(dst, programs []*algo.Program) []*algo.Program {
	for _, p := range programs {
		if len(p.Parts) == 0 {
			dst = append(dst, p)
		}
		for i := range p.Parts {
			dst = appendLeaves(dst, []*algo.Program{&p.Parts[i]})
		}
	}
	slices.SortFunc(dst, func(a, b *algo.Program) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(dst, func(a, b *algo.Program) bool { return a.Name == b.Name && a.Lua == b.Lua })
}

// find returns the cached script, if any. It returns an error if one name has two programs.
func (s *scripts) find(leaves []*algo.Program, key scriptKey) (*script, error) {
	for _, p := range leaves {
		if text, ok := s.lua[p.Name]; ok && text != p.Lua {
			return nil, fmt.Errorf("two different programs have the name %q", p.Name)
		}
	}
	return s.cached[key], nil
}

func (s *scripts) add(leaves []*algo.Program, key scriptKey, made *script) {
	if s.lua == nil {
		s.lua, s.cached = map[string]string{}, map[scriptKey]*script{}
	}
	for _, p := range leaves {
		s.lua[p.Name] = p.Lua
	}
	s.cached[key] = made
}

func joinNames(leaves []*algo.Program) string {
	if len(leaves) == 1 {
		return leaves[0].Name
	}
	names := make([]string, len(leaves))
	for i, p := range leaves {
		names[i] = p.Name
	}
	return strings.Join(names, "\x00")
}

func newRunScript(programs []*algo.Program, one bool) (*script, error) {
	if one {
		return newOneScript(programs[0])
	}
	values := make([]algo.Program, len(programs))
	for i, p := range programs {
		values[i] = *p
	}
	text, err := program.Lua(runLua, values...)
	if err != nil {
		return nil, err
	}
	return newScript(text), nil
}
