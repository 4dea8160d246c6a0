package algotest

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// zoned tells a policy the same instants in another time zone.
type zoned struct {
	algo.Policy
	zone *time.Location
}

func (z zoned) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return z.Policy.Step(dst, state, now.In(z.zone), cost)
}

func (z zoned) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	return z.Policy.Peek(state, now.In(z.zone), cost)
}

func (z zoned) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return z.Policy.Refund(dst, state, now.In(z.zone), cost)
}

func (z zoned) Charge(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return z.Policy.Charge(dst, state, now.In(z.zone), cost)
}
