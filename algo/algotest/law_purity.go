package algotest

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

var otherZone = time.FixedZone("UTC+5:45", 5*3600+45*60)

func deterministic(p *point) {
	twin, err := p.new(p.limit)
	p.require(err == nil, "New accepts the limit %v once, but refuses it the second time: %v", p.limit, err)
	now := instant(p.now)
	for first := range p.each(allOps...) {
		p.requireSame(first, "the second time", p.policy, now)
		p.requireSame(first, "with another policy of the same options", twin, now)
		p.requireSame(first, "in another time zone", p.policy, now.In(otherZone))
		p.requireArgumentsKept(first.op, first.cost, first.next)
	}
}

// requireSame requires that the policy returns the same again.
func (p *point) requireSame(first made, what string, policy algo.Policy, now time.Time) {
	p.calls++
	next, r, err := first.op.Apply(policy, nil, p.state, now, first.cost)
	if !(err == nil && r == first.r && bytes.Equal(next, first.next)) {
		p.fail("a %v returns\n    %+v %x, but %s\n    %+v %x", first.op, first.r, first.next, what, r, next)
	}
}

// requireArgumentsKept requires that the policy modifies neither state nor its spare capacity,
// appends to dst, and returns memory that it does not share with state.
func (p *point) requireArgumentsKept(op op, cost int64, want []byte) {
	now := instant(p.now)
	state, spare := p.state, []byte(nil)
	if len(state) > 0 {
		spare = append(bytes.Clone(state), make([]byte, 8)...)
		state = spare[:len(state)]
	}
	dst := append(make([]byte, 0, 3+len(want)), "dst"...)
	next, _, err := p.tryCall(op, dst, state, now, cost)
	p.require(err == nil, "%v returns an error if dst has room: %v", op, err)
	p.require(len(next) >= 3 && string(next[:3]) == "dst" && bytes.Equal(next[3:], want), "%v must append %x to dst=%x, but returns %x", op, want, "dst", next)
	alone, _, _ := p.tryCall(op, nil, state, now, cost)
	p.require(bytes.Equal(state, p.state), "%v changes its argument from the state %x to %x", op, p.state, state)
	p.require(bytes.Count(spare[len(state):], []byte{0}) == len(spare)-len(state), "%v writes into the memory after the state: %x", op, spare)
	clear(state)
	p.require(bytes.Equal(alone, want) && bytes.Equal(next[3:], want), "the bytes that %v returned change when the state that it was given is overwritten", op)
}

const (
	goroutines = 4
	rounds     = 8
)

func concurrent(p *point) {
	calls := slices.Collect(p.each(allOps...))
	p.clearProbes()
	p.calls += goroutines * rounds * len(calls)

	var group sync.WaitGroup
	var start sync.RWMutex // all goroutines start together
	var failures [goroutines]string
	start.Lock()
	for g := range goroutines {
		group.Go(func() {
			start.RLock()
			defer start.RUnlock()
			failures[g] = p.repeat(calls, g*len(calls)/goroutines)
		})
	}
	start.Unlock()
	group.Wait()
	for _, text := range failures {
		p.require(text == "", "%s", text)
	}
}

// repeat makes the calls several times, from the given one on, and describes the first that
// returns something else. Each goroutine starts with another call.
func (p *point) repeat(calls []made, from int) (failure string) {
	defer func() {
		if v := recover(); v != nil {
			failure = fmt.Sprintf("panic among %d goroutines: %v", goroutines, v)
		}
	}()
	state, dst := slices.Clip(p.state), make([]byte, 0, 256) // clipped, because goroutines share the spare capacity
	for i := range rounds * len(calls) {
		c := calls[(from+i)%len(calls)]
		next, r, err := c.op.Apply(p.policy, dst, state, instant(p.now), c.cost)
		if err != nil || r != c.r || !bytes.Equal(next, c.next) {
			return fmt.Sprintf("with one goroutine a %v of %d returns\n    %+v %x, but with %d\n    %+v %x (error %v)",
				c.op, c.cost, c.r, c.next, goroutines, r, next, err)
		}
	}
	return ""
}

// noAllocations does nothing under the race detector, which allocates itself.
func noAllocations(p *point) {
	if p.subject.Allocates || sample.RaceEnabled {
		return
	}
	dst, now := make([]byte, 0, len(p.state)+4096), instant(p.now)
	for _, cost := range p.costs() {
		p.calls++
		allocs := allocations(func() { _, _, _ = p.policy.Step(dst, p.state, now, cost) })
		p.require(allocs == 0, "a step of cost %d allocates %d times, although dst has room", cost, allocs)
	}
}

// allocations returns how often f allocates. Unlike testing.AllocsPerRun it works in parallel
// tests: it takes the minimum of many short measurements, and other goroutines do not allocate
// in all of them.
func allocations(f func()) uint64 {
	f()
	least := uint64(math.MaxUint64)
	for i := 0; i < 500 && least > 0; i++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	return least
}
