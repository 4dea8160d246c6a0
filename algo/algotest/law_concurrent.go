package algotest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-go/sluice/algo"
)

const (
	goroutines = 4
	rounds     = 8
)

// expectation is a call of a policy and what it returned to one goroutine.
type expectation struct {
	op   op
	cost int64
	next []byte
	r    algo.Result
}

func concurrent(p *point) {
	var calls []expectation
	for _, cost := range p.costs() {
		for _, op := range allOps {
			next, r := p.call(op, p.state, p.now, cost)
			calls = append(calls, expectation{op, cost, next, r})
		}
	}
	p.clearProbes()
	p.search.calls += goroutines * rounds * len(calls)

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
func (p *point) repeat(calls []expectation, from int) (failure string) {
	defer func() {
		if v := recover(); v != nil {
			failure = fmt.Sprintf("panic among %d goroutines: %v", goroutines, v)
		}
	}()
	state, dst := slices.Clip(p.state), make([]byte, 0, 256) // clipped, because goroutines share the spare capacity
	for i := range rounds * len(calls) {
		c := calls[(from+i)%len(calls)]
		next, r, err := apply(p.policy, c.op, dst, state, p.now, c.cost)
		if err != nil || r != c.r || !bytes.Equal(next, c.next) {
			return fmt.Sprintf("with one goroutine a %v of %d returns\n    %+v %x, but with %d\n    %+v %x (error %v)",
				c.op, c.cost, c.r, c.next, goroutines, r, next, err)
		}
	}
	return ""
}
