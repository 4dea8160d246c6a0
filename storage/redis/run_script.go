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

// Runs implements [storage.Server]: a program needs a text in Lua.
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
	texts map[string]string  // the text of each program
	many  map[string]*script // by the names of the programs
	one   map[oneProgram]*script
}

// oneProgram is a program in a script that is made from run_one.lua.
type oneProgram struct {
	name string
	args int
}

// of returns the script for batches of these programs, or for a batch of one use.
func (s *scripts) of(programs []*algo.Program, one bool) (*script, error) {
	var room [8]*algo.Program
	leaves := leavesOf(room[:0], programs)
	s.mu.RLock()
	found, err := s.known(leaves, one)
	s.mu.RUnlock()
	if found != nil || err != nil {
		return found, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, err := s.known(leaves, one); found != nil || err != nil { // another goroutine was first
		return found, err
	}
	return s.add(leaves, one)
}

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

func (s *scripts) known(leaves []*algo.Program, one bool) (*script, error) {
	for _, p := range leaves {
		if text, ok := s.texts[p.Name]; ok && text != p.Lua {
			return nil, fmt.Errorf("two different programs have the name %q", p.Name)
		}
	}
	if one {
		return s.one[oneProgram{leaves[0].Name, len(leaves[0].Args)}], nil
	}
	return s.many[nameOf(leaves)], nil
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

func (s *scripts) add(leaves []*algo.Program, one bool) (*script, error) {
	made, err := newRunScript(leaves, one)
	if err != nil {
		return nil, err
	}
	if s.texts == nil {
		s.texts, s.many, s.one = map[string]string{}, map[string]*script{}, map[oneProgram]*script{}
	}
	for _, p := range leaves {
		s.texts[p.Name] = p.Lua
	}
	if one {
		s.one[oneProgram{leaves[0].Name, len(leaves[0].Args)}] = made
	} else {
		s.many[nameOf(leaves)] = made
	}
	return made, nil
}

func newRunScript(leaves []*algo.Program, one bool) (*script, error) {
	if one {
		return newOneScript(leaves[0])
	}
	programs := make([]algo.Program, len(leaves))
	for i, p := range leaves {
		programs[i] = *p
	}
	text, err := program.Lua(runLua, programs...)
	if err != nil {
		return nil, err
	}
	return newScript(text), nil
}
