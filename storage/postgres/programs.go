package postgres

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/tokenbucket"
)

// standardPrograms returns the programs of sluice's algorithms, with the arguments of an arbitrary limit. No other store
// needs this list, because only a database with functions must create them before the first call.
func standardPrograms() (programs []algo.Program) {
	limit := algo.Per(1, time.Second)
	add := func(p algo.Portable, err error) {
		program, ok := p.Program()
		if err != nil || !ok {
			panic("postgres: " + p.String() + " has no program")
		}
		programs = append(programs, program)
	}
	add(gcra.New(gcra.Options{Limit: limit}))
	add(tokenbucket.New(tokenbucket.Options{Limit: limit}))
	add(fixedwindow.New(fixedwindow.Options{Limit: limit}))
	add(movingwindow.New(movingwindow.Options{Limit: limit}))
	return programs
}
