// Package standard lists the programs of the algorithms of this module. Only storage/postgres imports it,
// to create their functions, so that no other store depends on the algorithms.
package standard

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/tokenbucket"
)

// Programs returns the programs of the four algorithms. Their arguments are those of an arbitrary limit.
func Programs() (programs []algo.Program) {
	limit := algo.Per(1, time.Second)
	add := func(p algo.Portable, err error) {
		program, ok := p.Program()
		if err != nil || !ok {
			panic("standard: " + p.String() + " has no program")
		}
		programs = append(programs, program)
	}
	add(gcra.New(gcra.Options{Limit: limit}))
	add(tokenbucket.New(tokenbucket.Options{Limit: limit}))
	add(fixedwindow.New(fixedwindow.Options{Limit: limit}))
	add(movingwindow.New(movingwindow.Options{Limit: limit}))
	return programs
}
