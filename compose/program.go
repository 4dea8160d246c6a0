package compose

import "github.com/sluice-go/sluice/algo"

var _ algo.Portable = (*Stack)(nil)

// Program implements [algo.Portable]. There is one if there is one for every part.
func (s *Stack) Program() (algo.Program, bool) {
	var p algo.Program
	for _, part := range s.all() {
		portable, ok := part.(algo.Portable)
		if !ok {
			return algo.Program{}, false
		}
		program, ok := portable.Program()
		if !ok {
			return algo.Program{}, false
		}
		p.Parts = append(p.Parts, program)
	}
	return p, len(p.Parts) > 0
}
