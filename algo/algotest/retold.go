package algotest

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// retold tells a policy the times of its questions in another way.
type retold struct {
	algo.Policy
	tell func(time.Time) time.Time
}

func (r retold) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return r.Policy.Step(dst, state, r.tell(now), cost)
}

func (r retold) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	return r.Policy.Peek(state, r.tell(now), cost)
}

func (r retold) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return r.Policy.Refund(dst, state, r.tell(now), cost)
}

func (r retold) Charge(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return r.Policy.Charge(dst, state, r.tell(now), cost)
}
