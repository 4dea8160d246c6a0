package prepay_test

// This test promises that calls bought ahead are admitted at most Bound(x + life) times in any interval x, for random processes that
// crash, lose replies and compete, and that it finds each fault.

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/prepay"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

// purse is a prepay.Purse or a saboteur.
type purse interface {
	Spend(now time.Time) bool
	Next(now time.Time, most int64) int64
	Fill(sent time.Time, life time.Duration, calls, wanted int64)
}

const life = 20 * time.Millisecond

// process is a process that buys calls. Its clock is off by a constant.
type process struct {
	purse
	skew     time.Duration
	sent     time.Time // when the purchase in flight was sent, by the process; zero if there is none
	wanted   int64
	granted  int64     // by the store; the reply is on its way
	confirms time.Time // when the reply comes, by the true clock
	lost     bool      // it never comes, and perhaps the store has not got the request
}

// simulation has processes that share a limit.
type simulation struct {
	sample.Source
	newPurse func() purse
	policy   gcra.Policy
	state    []byte
	now      time.Time
	all      [30]*process
	log      []time.Time // of the admitted calls
}

// violation simulates processes, and returns an interval with too many admissions, or 0. One process at a time is busy.
// Now and then all of them want many calls.
func violation(seed uint64, newPurse func() purse) time.Duration {
	s := &simulation{Source: sample.New(seed, 3), newPurse: newPurse, now: time.Unix(1e9, 0)}
	var err error
	if s.policy, err = gcra.New(gcra.Options{Limit: algo.Per(1000, time.Second), Burst: 30}); err != nil {
		panic(err)
	}
	busy, demand := 0, 1
	for range 4000 {
		s.now = s.now.Add(time.Duration(s.Int64N(int64(4 * time.Millisecond))))
		if s.IntN(100) == 0 {
			busy, demand = s.IntN(len(s.all)), 1+s.IntN(8)
		}
		if s.IntN(100) == 0 || s.all[busy] == nil { // a crash
			s.all[busy] = &process{purse: newPurse(), skew: time.Duration(s.Int64N(int64(time.Hour)))}
		}
		s.call(s.all[busy], 1+s.IntN(demand))
		for _, p := range s.all {
			if s.IntN(300) == 0 && p != nil {
				s.call(p, 40)
			}
		}
		if s.IntN(300) == 0 {
			for _, p := range s.all {
				if p != nil {
					s.call(p, 40)
				}
			}
		}
	}
	for first := range s.log {
		for last := first; last < len(s.log); last += 1 + s.IntN(60) {
			span := s.log[last].Sub(s.log[first]) + 1
			if int64(last-first+1) > s.policy.Bound(span+life) {
				return span
			}
		}
	}
	return 0
}

// call makes calls by a process. If none is left, it sends a purchase.
func (s *simulation) call(p *process, calls int) {
	local := s.now.Add(p.skew)
	if !p.sent.IsZero() && !s.now.Before(p.confirms) {
		if _, ok := p.purse.(*optimist); ok && p.lost {
			p.granted, p.lost = p.wanted, false
		}
		if !p.lost && p.granted > 0 {
			p.Fill(p.sent, life, p.granted, p.wanted)
		}
		p.sent = time.Time{}
	}
	for range calls {
		if p.Spend(local) {
			s.log = append(s.log, s.now)
		} else if p.sent.IsZero() {
			s.buy(p, local)
		}
	}
}

func (s *simulation) buy(p *process, local time.Time) {
	p.sent, p.wanted, p.lost = local, p.Next(local, 40), s.IntN(10) == 0
	r, err := s.policy.Peek(s.state, s.now, 1)
	if err != nil {
		panic(err)
	}
	p.granted = min(p.wanted, max(r.Remaining, 0))
	if p.lost && s.IntN(2) == 0 { // the request is lost, too
		p.granted = 0
	}
	if p.granted > 0 {
		if s.state, _, err = s.policy.Step(nil, s.state, s.now, p.granted); err != nil {
			panic(err)
		}
	}
	p.confirms = s.now.Add(time.Duration(s.Int64N(int64(sample.OneOf(s.Source, 2*time.Millisecond, 2*time.Millisecond, 100*time.Millisecond)))))
	if b, ok := p.purse.(*unconfirmed); ok {
		b.Fill(local, life, p.wanted, p.wanted)
	}
}

func TestBoughtCallsStayWithinTheBound(t *testing.T) {
	for seed := range uint64(20) {
		require.Zero(t, violation(seed, func() purse { return new(prepay.Purse) }), "seed %d", seed)
	}
}

// late spends calls after they have expired.
type late struct{ prepay.Purse }

func (p *late) Spend(time.Time) bool { return p.Purse.Spend(time.Time{}) }

// fromReply counts the life of calls from the reply on.
type fromReply struct {
	prepay.Purse
	now time.Time
}

func (p *fromReply) Spend(now time.Time) bool {
	p.now = now
	return p.Purse.Spend(now)
}

func (p *fromReply) Fill(_ time.Time, life time.Duration, calls, wanted int64) {
	p.Purse.Fill(p.now.Add(100*time.Millisecond), life, calls, wanted)
}

// unconfirmed spends calls before the store has charged them.
type unconfirmed struct{ prepay.Purse }

// optimist takes a lost reply for a grant.
type optimist struct{ prepay.Purse }

func TestEachFaultIsFound(t *testing.T) {
	for name, newPurse := range map[string]func() purse{
		"spends after the expiry":        func() purse { return new(late) },
		"counts the life from the reply": func() purse { return new(fromReply) },
		"spends before the charge":       func() purse { return new(unconfirmed) },
		"takes a lost reply for a grant": func() purse { return new(optimist) },
	} {
		found := false
		for seed := uint64(0); seed < 50 && !found; seed++ {
			found = violation(seed, newPurse) > 0
		}
		require.True(t, found, name)
	}
}

func TestPurchasesGrowWithDemand(t *testing.T) {
	now := time.Unix(1e9, 0)
	var p prepay.Purse
	spend := func(n int) {
		for range n {
			require.True(t, p.Spend(now))
		}
	}
	for _, want := range []int64{1, 2, 4, 8, 10, 10} {
		calls := p.Next(now, 10)
		require.Equal(t, want, calls)
		p.Fill(now, life, calls, calls)
		spend(int(calls))
		require.False(t, p.Spend(now))
	}
	p.Fill(now, life, 10, 10)
	spend(4)
	now = now.Add(life)
	require.False(t, p.Spend(now), "they have expired")
	require.EqualValues(t, 4, p.Next(now, 10), "as many as were spent in time")
	p.Fill(now, life, 3, 4)
	spend(3)
	require.EqualValues(t, 2, p.Next(now, 10), "fewer than wanted were left")
	p.Fill(now, life, 2, 2)
	spend(2)
	p.Empty()
	require.EqualValues(t, 1, p.Next(now, 10), "a purchase of nothing is followed by one of a single call")
	now = now.Add(time.Hour)
	require.EqualValues(t, 1, p.Next(now, 10))
}
