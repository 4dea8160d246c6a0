package program_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/storage/driver"
)

// programCall is one call of a program, as [algo.Program] describes it.
type programCall struct {
	Op    string // "allow", "refund" or "charge"
	State []byte
	At    int64 // time, as algo.Instant returns it
	Cost  int64
	Times int64
}

// programReply is the result of one call of a program.
type programReply struct {
	Count int64 // number of allowed requests, or driver.Damaged or driver.Declined
	Next  []byte
	TTL   int64
}

// runner runs a program on a real server. The calls are independent of each other.
type runner func(p algo.Program, calls []programCall) ([]programReply, error)

// subject is an algorithm whose policies are [algo.Portable].
type subject struct {
	name string
	new  func(algo.Limit) (algo.Policy, error) // limits that it refuses are skipped
	from int64                                 // if not 0, histories begin near this instant, and with a charge
}

// cases returns the number of calls to try.
func cases() int {
	if sample.Brief() && !sample.Long() {
		return 5_000
	}
	return 100_000
}

const batchSize = 500

// check checks that the programs of the subject's policies return the same bytes as Step, Refund and
// Charge. It tries random limits, histories and costs, clocks that step back, and damaged
// states. A program must not decline a call on a state of its own policy.
func (s subject) check(seed uint64, cases int, run runner) error {
	g := &generator{random: sample.New(seed, 1), from: s.from}
	for tried := 0; tried < cases; tried += batchSize {
		limit, policy, err := s.portable(g)
		if err != nil {
			return err
		}
		calls, foreign := g.history(policy, s.similar(g, limit), batchSize)
		replies, err := compareProgram(policy, calls, run)
		if err != nil {
			return fmt.Errorf("%w (seed %d)", err, seed)
		}
		for i := range calls {
			if !foreign[i] && replies[i].Count == driver.Declined {
				return fmt.Errorf("the program of %v declines %+v, which is a state of its own", policy, calls[i])
			}
		}
	}
	return nil
}

// portable returns a random limit that New accepts, and its policy.
func (s subject) portable(g *generator) (algo.Limit, algo.Portable, error) {
	for range 1000 {
		limit := g.limit()
		if policy, err := s.new(limit); err == nil {
			return limit, policy.(algo.Portable), nil
		}
	}
	return algo.Limit{}, nil, fmt.Errorf("New of %s accepts none of 1000 limits", s.name)
}

// similar returns the policy for a similar limit. A key has its states after a limit changed.
func (s subject) similar(g *generator, limit algo.Limit) algo.Policy {
	for {
		l := limit
		if l.Count = g.random.UpTo(2 * l.Count); g.random.IntN(3) == 0 {
			l.Period = time.Duration(g.random.UpTo(1<<40)) * time.Microsecond
		}
		if p, err := s.new(l); err == nil {
			return p
		}
	}
}

// generator makes random calls.
type generator struct {
	random sample.Source
	from   int64 // see subject
}

// begin returns the time of the first call of a key.
func (g *generator) begin(limit algo.Limit) int64 {
	if g.from == 0 {
		return g.random.Int64N(algo.MaxInstant)
	}
	return max(0, g.from+g.random.UpTo(2*limit.Period.Microseconds())-limit.Period.Microseconds())
}

// limit returns a common limit, or a random one.
func (g *generator) limit() algo.Limit {
	period := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 250 * time.Millisecond, 7 * 24 * time.Hour}[g.random.IntN(6)]
	switch g.random.IntN(4) {
	case 0:
		return algo.Per(1+g.random.Int64N(20), time.Duration(1+g.random.Int64N(100))*time.Microsecond)
	case 1:
		return g.random.Limit()
	}
	return algo.Per(g.random.UpTo(100_000), period)
}

// history returns n calls on the states of several keys. Some of the states are written by
// the other policy, or damaged; foreign has the indexes of these calls.
func (g *generator) history(policy, other algo.Policy, n int) (calls []programCall, foreign map[int]bool) {
	foreign = map[int]bool{}
	limit := policy.Limit()
	var state []byte
	byOther := false
	at := g.begin(limit)
	for len(calls) < n {
		if g.random.IntN(12) == 0 {
			state, at, byOther = nil, g.begin(limit), false
		}
		if g.random.IntN(15) == 0 {
			if next, _, err := other.Charge(nil, state, time.UnixMicro(at), g.random.UpTo(10)); err == nil {
				state, byOther = next, true
				at = min(max(at+g.random.Int64N(limit.Period.Microseconds()/4+2), 0), algo.MaxInstant)
			}
		}
		r, _ := policy.Peek(state, time.UnixMicro(at), 1)
		call := programCall{Op: "allow", State: state, At: at, Cost: g.cost(r), Times: 1}
		switch g.random.IntN(10) {
		case 0:
			call.Op = "refund"
		case 1:
			call.Op = "charge"
		case 2, 3:
			call.Times = g.random.UpTo(10)
		}
		if g.from > 0 && len(state) == 0 {
			call.Op, call.Times = "charge", 1
		}
		if _, next, _, err := runInGo(policy, &call); err == nil {
			state = next
		}
		if g.random.IntN(20) == 0 {
			call.State = g.random.Damage(call.State)
			foreign[len(calls)] = true
		}
		if byOther {
			foreign[len(calls)] = true
		}
		calls = append(calls, call)
		at = min(max(at+g.pause(r, limit), 0), algo.MaxInstant)
	}
	return calls, foreign
}

// cost returns a small cost, all units left, slightly more, or any cost.
func (g *generator) cost(r algo.Result) int64 {
	switch g.random.IntN(6) {
	case 0:
		return max(1, r.Remaining)
	case 1:
		return max(1, min(r.Remaining, 1<<50)+1)
	case 2:
		return max(1, min(g.random.UpTo(max(r.Limit, 1)), 1<<50))
	case 3:
		return g.random.UpTo(1 << 40)
	}
	return 1 + g.random.Int64N(3)
}

// pause returns how far the clock moves: to a change of the result, a little, far, or back.
func (g *generator) pause(r algo.Result, limit algo.Limit) int64 {
	near := func(d time.Duration) int64 { return d.Microseconds() + g.random.Int64N(3) - 1 }
	switch g.random.IntN(9) {
	case 0:
		return near(r.NextRefill)
	case 1:
		return near(r.ResetAfter)
	case 2:
		return -g.random.UpTo(limit.Period.Microseconds())
	case 3:
		return g.random.UpTo(1 << 50)
	case 4:
		return g.random.Int64N(3)
	case 5:
		return -near(r.NextRefill)
	}
	return g.random.Int64N(limit.Period.Microseconds()/2 + 2)
}

// runInGo makes the call in Go. It returns the result of the last request that was allowed.
func runInGo(p algo.Policy, c *programCall) (count int64, next []byte, r algo.Result, err error) {
	now, next := time.UnixMicro(c.At), c.State
	switch c.Op {
	case "refund":
		next, r, err = p.Refund(nil, c.State, now, c.Cost)
		return 1, next, r, err
	case "charge":
		next, r, err = p.Charge(nil, c.State, now, c.Cost)
		return 1, next, r, err
	}
	for ; count < c.Times; count++ {
		after, stepped, err := p.Step(nil, next, now, c.Cost)
		if err != nil || !stepped.Allowed {
			return count, next, r, err
		}
		next, r = after, stepped
	}
	return count, next, r, nil
}

// compareProgram runs the program of a policy on calls and returns the replies. It returns an
// error if a reply differs from the result of the policy's Step, Refund or Charge, unless
// the program declined the call.
func compareProgram(p algo.Portable, calls []programCall, run runner) ([]programReply, error) {
	program, ok := p.Program()
	if !ok {
		return nil, fmt.Errorf("%v has no program", p)
	}
	replies, err := run(program, calls)
	if err != nil {
		return nil, fmt.Errorf("the program of %v: %w", p, err)
	}
	for i := range calls {
		if err := compare(p, &calls[i], &replies[i]); err != nil {
			return nil, fmt.Errorf("the program of %v differs from its Step: %w", p, err)
		}
	}
	return replies, nil
}

// compare compares a reply with the result in Go.
func compare(p algo.Policy, c *programCall, got *programReply) error {
	count, next, r, err := runInGo(p, c)
	want := programReply{Count: count, Next: next, TTL: r.ResetAfter.Microseconds()}
	if err != nil {
		want = programReply{Count: driver.Damaged}
	}
	same := got.Count == want.Count && bytes.Equal(got.Next, want.Next) && got.TTL == want.TTL
	if !same && got.Count != driver.Declined {
		return fmt.Errorf("%s of %d x %d at %d on the state %x\n    returned %+v\n    want     %+v", c.Op, c.Times, c.Cost, c.At, c.State, *got, want)
	}
	return nil
}
