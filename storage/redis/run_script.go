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

// Runs implements [driver.Server]: a program needs a text in Lua.
func (s *Store) Runs(p *algo.Program) bool {
	for i := range p.Parts {
		if !s.Runs(&p.Parts[i]) {
			return false
		}
	}
	return len(p.Parts) > 0 || p.Name != "" && p.Lua != ""
}

// scripts are the scripts that decide batches.
type scripts struct {
	mu    sync.RWMutex
	texts map[string]string // the text of each program
	made  map[purpose]*script
}

// purpose is what a script is made for.
type purpose struct {
	names  string // of its programs
	stacks bool   // they are the parts of stacks
	one    bool   // it is made from run_one.lua
	args   int    // the number of arguments of the program in run_one.lua
}

// of returns the script for batches of these programs, or for a batch of one use.
func (s *scripts) of(programs []*algo.Program, one bool) (*script, error) {
	var room [8]*algo.Program
	leaves := leavesOf(room[:0], programs)
	to := purpose{names: nameOf(leaves), stacks: slices.ContainsFunc(programs, isStack), one: one}
	if one {
		to.args = len(leaves[0].Args)
	}
	s.mu.RLock()
	found, err := s.known(leaves, to)
	s.mu.RUnlock()
	if found != nil || err != nil {
		return found, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, err := s.known(leaves, to); found != nil || err != nil { // another goroutine was first
		return found, err
	}
	made, err := newRunScript(programs, one)
	if err == nil {
		s.add(leaves, to, made)
	}
	return made, err
}

func isStack(p *algo.Program) bool { return len(p.Parts) > 0 }

// leavesOf appends the distinct programs that are no stacks, sorted by name.
func leavesOf(dst, programs []*algo.Program) []*algo.Program {
	for _, p := range programs {
		if len(p.Parts) == 0 {
			dst = append(dst, p)
		}
		for i := range p.Parts {
			dst = leavesOf(dst, []*algo.Program{&p.Parts[i]})
		}
	}
	slices.SortFunc(dst, func(a, b *algo.Program) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(dst, func(a, b *algo.Program) bool { return a.Name == b.Name && a.Lua == b.Lua })
}

func (s *scripts) known(leaves []*algo.Program, to purpose) (*script, error) {
	for _, p := range leaves {
		if text, ok := s.texts[p.Name]; ok && text != p.Lua {
			return nil, fmt.Errorf("two different programs have the name %q", p.Name)
		}
	}
	return s.made[to], nil
}

func (s *scripts) add(leaves []*algo.Program, to purpose, made *script) {
	if s.texts == nil {
		s.texts, s.made = map[string]string{}, map[purpose]*script{}
	}
	for _, p := range leaves {
		s.texts[p.Name] = p.Lua
	}
	s.made[to] = made
}

func nameOf(leaves []*algo.Program) string {
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
