package algotest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-go/sluice/algo"
)

// Concurrent is law 17: a policy answers any number of goroutines as it answers
// one. The race detector sees what few rounds may not.
func Concurrent(t testing.TB, s Subject) {
	t.Helper()
	s.effort = effort{limits: 6, layer: 4, tries: 4, depth: 1, judged: 1, random: 8_000}
	law{
		number: 17, name: "Concurrent",
		sentence: "a policy answers any number of goroutines as it answers one",
		judge:    concurrent,
		verbs:    []op{refund, charge}, skewed: true,
	}.hold(t, s)
}

const (
	goroutines = 4
	rounds     = 8
)

// A question is one call of a policy, and its answer to the only one who asks.
type question struct {
	op   op
	cost int64
	next []byte
	r    algo.Result
}

func concurrent(p *point) {
	var questions []question
	for _, cost := range p.costs() {
		for _, op := range []op{step, peek, refund, charge} {
			next, r := p.call(op, p.state, p.now, cost)
			questions = append(questions, question{op, cost, next, r})
		}
	}
	p.forget()
	p.hunt.calls += goroutines * rounds * len(questions)

	var all sync.WaitGroup
	var start sync.RWMutex // nobody asks before all can
	var said [goroutines]string
	start.Lock()
	for g := range goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			start.RLock()
			defer start.RUnlock()
			said[g] = p.askAll(questions, g*len(questions)/goroutines)
		}()
	}
	start.Unlock()
	all.Wait()
	for _, text := range said {
		p.require(text == "", "%s", text)
	}
}

// askAll asks the questions over and over, from the given one on, and says which was
// answered otherwise. What is asked next differs between those who ask at once.
func (p *point) askAll(questions []question, from int) (said string) {
	defer func() {
		if v := recover(); v != nil {
			said = fmt.Sprintf("panic among %d goroutines: %v", goroutines, v)
		}
	}()
	state, dst := slices.Clip(p.state), make([]byte, 0, 256) // of the spare capacity there is but one
	for i := range rounds * len(questions) {
		q := questions[(from+i)%len(questions)]
		next, r, err := apply(p.policy, q.op, dst, state, p.now, q.cost)
		if err != nil || r != q.r || !bytes.Equal(next, q.next) {
			return fmt.Sprintf("one goroutine that asks for a %v of %d is answered\n    %+v %x, and one of %d\n    %+v %x (error %v)",
				q.op, q.cost, q.r, q.next, goroutines, r, next, err)
		}
	}
	return ""
}
