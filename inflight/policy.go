package inflight

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/movingwindow"
)

// Policy implements [algo.Holder] and [algo.Portable]. The zero Policy denies everything.
type Policy struct {
	of *prepared // the only field, so converting a Policy to an interface does not allocate
}

// prepared holds the options, and the window that counts the units.
type prepared struct {
	Options
	window movingwindow.Policy
	held   atomic.Pointer[heldUnits] // of the last call of Held
}

// heldUnits is the policy for the units of one slot.
type heldUnits struct {
	movingwindow.Policy
	of   Policy
	slot int64
}

// String returns the spec of the policy that held the units, because results and events have the policy that decided.
func (h *heldUnits) String() string { return h.of.String() }

var _ interface {
	algo.Portable
	algo.Holder
} = Policy{}

// New returns a policy, or the error of [Options.Validate].
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return Policy{}, err
	}
	if o.Cost > 1 {
		return Policy{}, fmt.Errorf("inflight: Cost must be 0 or 1 for a Policy, got %d; pass the cost to the methods of the Policy", o.Cost)
	}
	w, err := movingwindow.New(o.window())
	return Policy{&prepared{Options: o, window: w}}, err
}

func (p Policy) Options() Options { return p.prepared().Options }

func (p Policy) prepared() *prepared { return policy.OrNew(p.of) }

func (p Policy) Step(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	return p.prepared().window.Step(dst, state, now, cost)
}

func (p Policy) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	return p.prepared().window.Peek(state, now, cost)
}

// Refund gives back the units that were taken last. Use that of Held for the units of one Step.
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	return p.prepared().window.Refund(dst, state, now, cost)
}

func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	return p.prepared().window.Charge(dst, state, now, cost)
}

// Held implements [algo.Holder]. Refund and Step of the result are [Release] and [Renew].
func (p Policy) Held(taken time.Time) algo.Policy {
	own := p.prepared()
	if own.Count == 0 {
		return p
	}
	width := policy.Ceil(own.TTL.Microseconds(), policy.Or(int64(own.Slots), DefaultSlots))
	slot := algo.Instant(taken) / width
	if recent := own.held.Load(); recent != nil && recent.slot == slot {
		return recent
	}
	w, _ := movingwindow.New(own.Options.held(taken)) // the options are valid
	held := &heldUnits{w, p, slot}
	own.held.Store(held)
	return held
}

// Bound returns the most units that can be taken in an interval if none is released.
func (p Policy) Bound(interval time.Duration) int64 { return p.prepared().window.Bound(interval) }

// Limit returns Count and TTL.
func (p Policy) Limit() algo.Limit { return p.prepared().window.Limit() }

// String returns the spec, such as "inflight 20 ttl=30s".
func (p Policy) String() string {
	o := p.prepared().Options
	spec := fmt.Sprintf("inflight %d ttl=%s", o.Count, algo.FormatDuration(o.TTL))
	if o.Slots != 0 && o.Slots != DefaultSlots {
		spec += fmt.Sprintf(" slots=%d", o.Slots)
	}
	return spec
}

func (p Policy) Program() (algo.Program, bool) { return p.prepared().window.Program() }
