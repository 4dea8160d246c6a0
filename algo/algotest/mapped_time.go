package algotest

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// mappedTime is a policy that maps every time before it uses it.
type mappedTime struct {
	algo.Policy
	convert func(time.Time) time.Time
}

func (m mappedTime) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return m.Policy.Step(dst, state, m.convert(now), cost)
}

func (m mappedTime) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	return m.Policy.Peek(state, m.convert(now), cost)
}

func (m mappedTime) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return m.Policy.Refund(dst, state, m.convert(now), cost)
}

func (m mappedTime) Charge(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return m.Policy.Charge(dst, state, m.convert(now), cost)
}
