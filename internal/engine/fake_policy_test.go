package engine_test

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage/driver"
)

// The policies of these tests have readable states:
//
//	counter N   at most N units; the state has an x for each used unit
//	spacing N   one unit in N nanoseconds; the state is the time of the last one
func counter(limit int64) *algo.Program { return &algo.Program{Name: "counter", Args: []int64{limit}} }

func spacing(pause time.Duration) *algo.Program {
	return &algo.Program{Name: "spacing", Args: []int64{int64(pause)}}
}

var errState = errors.New("the state cannot be read")

// step is the step of a policy. The fake server and the evaluator call it.
func step(p *algo.Program, op driver.Op, state string, now time.Time, cost int64) (allowed bool, next string, err error) {
	if state == "damaged" {
		return false, state, errState
	}
	if p.Name == "spacing" {
		return space(p, state, now)
	}
	used := int64(len(state))
	switch op {
	case driver.Refund:
		used = max(used-cost, 0)
	case driver.Charge:
		used += cost
	default:
		if used+cost > p.Args[0] {
			return false, state, nil
		}
		used += cost
	}
	return true, strings.Repeat("x", int(used)), nil
}

func space(p *algo.Program, state string, now time.Time) (allowed bool, next string, err error) {
	if state != "" && now.Sub(lastOf(state)) < time.Duration(p.Args[0]) {
		return false, state, nil
	}
	return true, string(binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano()))), nil
}

func lastOf(state string) time.Time {
	return time.Unix(0, int64(binary.BigEndian.Uint64([]byte(state))))
}

// call is a request for one unit of each key, unless a test changes its uses.
type call struct {
	engine.Request
	allowed bool
	retry   time.Duration // of the last use that a spacing policy denied
	states  []string      // of the last evaluation
	times   []time.Time   // of all evaluations
	before  func() error  // is called before each evaluation

	stats    engine.Stats
	err      error
	panicked any
	took     time.Duration
	returned bool
}

func newCall(program *algo.Program, keys ...string) *call {
	return newCallOf(driver.Allow, program, keys...)
}

func newCallOf(op driver.Op, program *algo.Program, keys ...string) *call {
	c := &call{}
	c.Evaluator = c
	for _, key := range keys {
		c.Items = append(c.Items, driver.Item{Key: driver.RuleKey{Key: key}})
		c.Uses = append(c.Uses, engine.Use{Op: op, Program: program, Cost: 1})
	}
	return c
}

// Evaluate implements engine.Evaluator.
func (c *call) Evaluate(now time.Time, items []driver.Item, _ bool) (applied int, err error) {
	c.times, c.states, c.allowed = append(c.times, now), nil, true
	if c.before != nil {
		if err := c.before(); err != nil {
			return 0, err
		}
	}
	for i, u := range c.Uses {
		state, change := string(items[i].Found.State), &items[i].Next
		c.states = append(c.states, state)
		if u.Op == driver.Peek {
			continue
		}
		if u.Op == driver.Reset {
			if items[i].Found.Version != 0 {
				change.Verb = driver.Delete
			}
			continue
		}
		allowed, next, err := step(u.Program, u.Op, state, now, u.Cost)
		switch {
		case err != nil && !u.Shadow:
			return 0, err
		case err != nil:
		case allowed:
			applied++
			if *change = (driver.Change{Verb: driver.Put, State: []byte(next), TTL: time.Hour}); next == "" {
				*change = driver.Change{Verb: driver.Delete}
			}
		case !u.Shadow:
			c.deny(u.Program, state, now)
		}
	}
	if !c.allowed {
		for i := range items {
			items[i].Next = driver.Change{}
		}
		return 0, nil
	}
	return applied, nil
}

func (c *call) deny(p *algo.Program, state string, now time.Time) {
	c.allowed = false
	if p.Name == "spacing" {
		c.retry = time.Duration(p.Args[0]) - now.Sub(lastOf(state))
	}
}

func (c *call) Denied() (time.Duration, bool) {
	if c.retry == 0 { // a wait does not help
		return math.MaxInt64, !c.allowed
	}
	return c.retry, !c.allowed
}
