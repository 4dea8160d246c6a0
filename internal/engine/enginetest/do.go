// Package enginetest lets tests make decisions of their own with an engine.
package enginetest

import (
	"context"
	"math"
	"time"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage/driver"
)

// Decide decides on states, as engine.Evaluator says. A decision that changes nothing is a denial.
type Decide func(now time.Time, states [][]byte, changes []driver.Change) error

// Do decides on the states of keys. No server has a program for the decision.
func Do(ctx context.Context, e *engine.Engine, keys []string, decide Decide) (engine.Stats, error) {
	return e.Decide(ctx, &engine.Request{Keys: keys, Uses: make([]engine.Use, len(keys)), Evaluator: &evaluator{decide: decide}})
}

type evaluator struct {
	decide  Decide
	changed bool
}

func (e *evaluator) Evaluate(now time.Time, states [][]byte, changes []driver.Change) (applied int, err error) {
	if err := e.decide(now, states, changes); err != nil {
		return 0, err
	}
	e.changed = false
	for i := range changes {
		if changes[i].Verb != driver.Keep {
			e.changed = true
			applied++
		}
	}
	return applied, nil
}

func (e *evaluator) Denied() (time.Duration, bool) { return math.MaxInt64, !e.changed }

func (e *evaluator) Confirm(time.Time, [][]byte) error { return nil }
