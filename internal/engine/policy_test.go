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

// The policies of these tests. Their states are easy to read.
//
//	counter N   at most N units; the state has an x for each
//	spacing N   one unit in N nanoseconds; the state is the time of the last one
func counter(limit int64) *algo.Program { return &algo.Program{Name: "counter", Args: []int64{limit}} }

func spacing(pause time.Duration) *algo.Program {
	return &algo.Program{Name: "spacing", Args: []int64{int64(pause)}}
}

var errState = errors.New("the state cannot be read")

// step is the step of a policy, for the fake servers as well as for Go.
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

// call is a request for one unit of each key, or for what its uses are changed to.
type call struct {
	engine.Request
	allowed   bool
	confirmed bool          // all that is known is that it was stored
	retry     time.Duration // under the last use that denies by spacing
	states    []string      // that it was last decided on
	times     []time.Time   // of all its decisions
	before    func() error  // of each decision

	how      engine.How
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
	c.Keys, c.Evaluator = keys, c
	for range keys {
		c.Uses = append(c.Uses, engine.Use{Op: op, Program: program, Cost: 1})
	}
	return c
}

// Evaluate implements engine.Evaluator, as compose does.
func (c *call) Evaluate(now time.Time, states [][]byte, changes []driver.Change) (applied int, err error) {
	c.times, c.states, c.allowed = append(c.times, now), nil, true
	if c.before != nil {
		if err := c.before(); err != nil {
			return 0, err
		}
	}
	for i, u := range c.Uses {
		c.states = append(c.states, string(states[i]))
		if u.Op == driver.Peek {
			continue
		}
		if u.Op == driver.Reset {
			if states[i] != nil {
				changes[i].Verb = driver.Delete
			}
			continue
		}
		allowed, next, err := step(u.Program, u.Op, string(states[i]), now, u.Cost)
		switch {
		case err != nil && !u.Shadow:
			return 0, err
		case err != nil:
		case allowed:
			applied++
			if changes[i] = (driver.Change{Verb: driver.Put, State: []byte(next), TTL: time.Hour}); next == "" {
				changes[i] = driver.Change{Verb: driver.Delete}
			}
		case !u.Shadow:
			c.deny(u.Program, string(states[i]), now)
		}
	}
	if !c.allowed {
		clear(changes)
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
	if c.retry == 0 { // waiting does not help
		return math.MaxInt64, !c.allowed
	}
	return c.retry, !c.allowed
}

func (c *call) Confirm(time.Time, [][]byte) error {
	c.allowed, c.confirmed = true, true
	return nil
}
