package calendar

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/internal/policy"
)

// Policy implements [algo.Policy]. The zero Policy denies everything.
type Policy struct {
	of *prepared // the only field, so converting a Policy to an interface does not allocate
}

// prepared holds the options, and what Bound needs.
type prepared struct {
	Options
	drift time.Duration
}

var _ algo.Policy = Policy{}

// New returns a policy, or the error of [Options.Validate].
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return Policy{}, err
	}
	if o.Cost > 1 {
		return Policy{}, fmt.Errorf("calendar: Cost must be 0 or 1 for a Policy, got %d; pass the cost to the methods of the Policy", o.Cost)
	}
	if !matchesItsName(o.zone()) {
		return Policy{}, fmt.Errorf("calendar: Zone must be a zone that time.LoadLocation returns, such as Europe/Berlin, got one that only has the name %q, with other offsets", o.zone())
	}
	return Policy{&prepared{o, o.drift()}}, nil
}

func (p Policy) Options() Options { return p.prepared().Options }

func (p Policy) prepared() *prepared { return policy.OrNew(p.of) }

func (p Policy) Step(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	return p.decide(policy.Step, dst, state, now, cost)
}

func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	_, r, err = p.decide(policy.Peek, nil, state, now, cost)
	return r, err
}

func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	return p.decide(policy.Refund, dst, state, now, cost)
}

func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	return p.decide(policy.Charge, dst, state, now, cost)
}

func (p Policy) decide(op policy.Op, dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	s, err := fixedwindow.ParseState(state)
	if err != nil {
		return dst, r, err
	}
	window, _ := fixedwindow.New(p.prepared().fixed(s, now)) // that of the zero Policy denies everything
	return op.Apply(window, dst, state, now, cost)
}

func (p Policy) Bound(interval time.Duration) int64 {
	own := p.prepared()
	if interval < 1 || own.Count == 0 {
		return 0
	}
	micros := algo.Microseconds(interval)
	if micros == 0 {
		return own.Count
	}
	const day = 24 * int64(time.Hour/time.Microsecond)
	whole := int64(0) // windows, which lie between the first instant and the last one
	for max(0, own.Unit.leastDays(whole+1)*day-own.drift.Microseconds()) < micros {
		whole++
	}
	return policy.MulDiv(own.Count, 2+whole, 1)
}

// Limit implements [algo.Policy]. A month counts as 30 days, and a year as 365.
func (p Policy) Limit() algo.Limit {
	own := p.prepared()
	if own.Count == 0 {
		return algo.Limit{}
	}
	days := [...]time.Duration{Day: 1, Week: 7, Month: 30, Year: 365}
	return algo.Per(own.Count, days[own.Unit]*24*time.Hour)
}

// String returns the spec, such as "calendar 10000/month tz=Europe/Berlin".
func (p Policy) String() string {
	o := p.prepared().Options
	spec := fmt.Sprintf("calendar %d/%v", o.Count, o.Unit)
	if o.zone().String() != "UTC" {
		spec += " tz=" + o.zone().String()
	}
	return spec
}
