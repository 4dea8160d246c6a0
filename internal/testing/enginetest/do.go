// Package enginetest lets tests make decisions of their own with an engine.
package enginetest

import (
	"context"
	"math"
	"time"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage/driver"
)

// Decide decides on records, as engine.Evaluator says. A decision that changes nothing is a denial.
type Decide func(now time.Time, items []driver.Item) error

// Do decides on the records of keys. The keys belong to no rule, so each is its own text. No server has a program for the decision.
func Do(ctx context.Context, e *engine.Engine, keys []string, decide Decide) (engine.Stats, error) {
	r := &engine.Request{Uses: make([]engine.Use, len(keys)), Evaluator: &evaluator{decide: decide}}
	for _, key := range keys {
		r.Items = append(r.Items, driver.Item{Key: driver.RuleKey{Key: key}})
	}
	return e.Decide(ctx, r)
}

type evaluator struct {
	decide  Decide
	changed bool
}

func (e *evaluator) Evaluate(now time.Time, items []driver.Item, _ bool) (applied int, err error) {
	if err := e.decide(now, items); err != nil {
		return 0, err
	}
	e.changed = false
	for i := range items {
		if items[i].Next.Verb != driver.Keep {
			e.changed = true
			applied++
		}
	}
	return applied, nil
}

func (e *evaluator) Denied() (time.Duration, bool) { return math.MaxInt64, !e.changed }
