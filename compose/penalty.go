package compose

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Version 1 of the encoding of a state has the start of the last penalty, at most 2^52-1, or 0, and the state of the inner policy:
//
//	'p' 1
//	7 bytes: start, in microseconds since the Unix epoch, big endian
//	the state of the inner policy
//
// A key without a penalty, whose inner state is empty, is empty bytes.

// Penalty is an algo.Policy that denies a key for a time after another policy, its inner policy, has denied it. Calls during a
// penalty are denied, and do not extend it. The zero Penalty and a nil Penalty deny everything.
//
// Only a denial by the inner policy begins a penalty: not one by another rule, not a Peek, and not a cost that the inner policy
// never allows. During a penalty, Remaining is 0, or less if there is a debt. Refund and Charge go to the inner policy. A Refund
// ends no penalty; a reset does. A changed Duration counts from the start of a penalty, so it can bring back one that has ended,
// unless a call was allowed since.
//
// RetryAfter of a Step that begins a penalty covers it, but not that of a Peek. A Penalty runs in Go on every store.
type Penalty struct {
	inner algo.Policy
	time  time.Duration
}

var _ algo.Policy = (*Penalty)(nil)

const (
	penaltyTag    = 'p'
	penaltyHeader = 9
)

// MinPenalty is the shortest penalty.
const MinPenalty = time.Millisecond

// Punish returns a Penalty of a duration from MinPenalty to algo.MaxPeriod, in whole microseconds.
func Punish(inner algo.Policy, d time.Duration) (*Penalty, error) {
	switch inner.(type) {
	case nil:
		return nil, errors.New("compose: Punish: the policy is nil")
	case *Penalty, algo.Holder:
		return nil, fmt.Errorf("compose: Punish takes no other Penalty, and no policy whose units are held, got %v", inner)
	}
	if err := policy.Check(inner); err != nil {
		return nil, fmt.Errorf("compose: Punish: the policy denies everything: %w", err)
	}
	if d < MinPenalty || d > algo.MaxPeriod || d%time.Microsecond != 0 {
		return nil, fmt.Errorf("compose: Punish: the duration must be whole microseconds from 1ms to 26062d, got %v", d)
	}
	return &Penalty{inner, d}, nil
}

// Inner returns the inner policy, or nil.
func (p *Penalty) Inner() algo.Policy {
	if p == nil {
		return nil
	}
	return p.inner
}

// Duration returns the duration of a penalty, or 0.
func (p *Penalty) Duration() time.Duration {
	if p == nil {
		return 0
	}
	return p.time
}

func (p *Penalty) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return p.apply(policy.Step, dst, state, now, cost)
}

func (p *Penalty) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	_, r, err := p.apply(policy.Peek, nil, state, now, cost)
	return r, err
}

func (p *Penalty) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return p.apply(policy.Refund, dst, state, now, cost)
}

func (p *Penalty) Charge(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return p.apply(policy.Charge, dst, state, now, cost)
}

func (p *Penalty) apply(op policy.Op, dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	switch {
	case cost < 1:
		return dst, r, algo.ErrCost
	case p.Inner() == nil:
		r = algo.Result{Cost: cost, RetryAfter: algo.Never}
		return append(dst, state...), r, nil
	}
	start, own, err := parsePenalty(state)
	if err != nil {
		return dst, r, err
	}
	at, inner := algo.Instant(now), own
	end := p.end(start)
	left := time.Duration(end-at) * time.Microsecond
	begins := false
	switch {
	case left > 0 && (op == policy.Step || op == policy.Peek):
		r, err = p.denied(own, at, end, cost)
	case op == policy.Peek:
		r, err = p.inner.Peek(own, now, cost)
	default:
		inner, r, err = op.Apply(p.inner, nil, own, now, cost)
		begins = op == policy.Step && !r.Allowed && r.RetryAfter != algo.Never
	}
	switch {
	case err != nil:
	case begins:
		start = max(at, 1)
		end = p.end(start)
		r, err = p.denied(inner, at, end, cost)
	case left > 0 && r.Allowed: // a refund or a charge
		switch {
		case r.Remaining > 0:
			r.NextRefill = left
		case r.Remaining == 0:
			r.NextRefill = max(r.NextRefill, left)
		}
		r.ResetAfter = max(r.ResetAfter, left)
		r.Remaining, r.Refilled = min(r.Remaining, 0), 0
		r.Available = r.Remaining + r.Paid
	}
	r.Skew = max(r.Skew, time.Duration(start-at)*time.Microsecond) // the clock has stepped back
	switch {
	case err != nil:
		return dst, algo.Result{}, err
	case op == policy.Peek:
		return dst, r, nil
	case end <= at && bytes.Equal(inner, own): // the state may have the start of an earlier penalty
		return append(dst, state...), r, nil
	case end <= at:
		start = 0
	}
	return appendPenalty(dst, start, inner), r, nil
}

// end returns the end of the penalty that began at an instant, or 0 if there is none.
func (p *Penalty) end(start int64) int64 {
	if start == 0 {
		return 0
	}
	return min(start+p.time.Microseconds(), algo.MaxInstant)
}

// denied returns the result of a denial during a penalty, on an inner state.
func (p *Penalty) denied(own []byte, at, end, cost int64) (r algo.Result, err error) {
	left := time.Duration(end-at) * time.Microsecond
	now, err := p.inner.Peek(own, time.UnixMicro(at), cost)
	if err != nil {
		return r, err
	}
	then, err := p.inner.Peek(own, time.UnixMicro(end), cost)
	r = algo.Result{Limit: now.Limit, Cost: cost, Part: now.Part, RetryAfter: algo.Never, NextRefill: left, ResetAfter: max(left, now.ResetAfter), Skew: now.Skew}
	switch r.Remaining = min(now.Remaining, 0); {
	case r.Remaining < 0: // a debt shrinks meanwhile
		r.NextRefill = now.NextRefill
	case then.Remaining < 1:
		r.NextRefill += then.NextRefill
	}
	r.Available = r.Remaining
	if then.RetryAfter != algo.Never {
		r.RetryAfter = left + then.RetryAfter
	}
	return r, err
}

func appendPenalty(dst []byte, start int64, own []byte) []byte {
	if start == 0 && len(own) == 0 {
		return dst
	}
	var header [penaltyHeader + 1]byte
	binary.BigEndian.PutUint64(header[2:], uint64(start)<<8)
	header[0], header[1] = penaltyTag, policy.Version
	return append(append(dst, header[:penaltyHeader]...), own...)
}

// parsePenalty returns the start of the penalty, 0 if there is none, and the state of the inner policy.
func parsePenalty(state []byte) (start int64, own []byte, err error) {
	if len(state) < penaltyHeader || state[0] != penaltyTag || state[1] != policy.Version {
		return 0, nil, policy.HeaderError(state, penaltyTag)
	}
	var number [8]byte
	copy(number[1:], state[2:penaltyHeader])
	start, own = int64(binary.BigEndian.Uint64(number[:])), state[penaltyHeader:]
	if start > algo.MaxInstant || start == 0 && len(own) == 0 {
		return 0, nil, algo.ErrState
	}
	return start, own, nil
}

// Split returns the end of the penalty, or the zero time, and the state of the inner policy.
func (p *Penalty) Split(state []byte) (end time.Time, inner []byte, err error) {
	start, inner, err := parsePenalty(state)
	if start > 0 {
		end = time.UnixMicro(p.end(start))
	}
	return end, inner, err
}

// Join is the inverse of Split. The penalty ends at the latest with one that would start now.
func (p *Penalty) Join(end time.Time, inner []byte, now time.Time) []byte {
	at, start := algo.Instant(now), int64(0)
	if until := algo.Instant(end); !end.IsZero() && until > at {
		start = max(min(until-p.time.Microseconds(), at), 1)
	}
	return appendPenalty(nil, start, inner)
}

// Bound returns the bound of the inner policy.
func (p *Penalty) Bound(interval time.Duration) int64 {
	if p.Inner() == nil {
		return 0
	}
	return p.inner.Bound(interval)
}

func (p *Penalty) Limit() algo.Limit {
	if p.Inner() == nil {
		return algo.Limit{}
	}
	return p.inner.Limit()
}

// String returns the spec, such as "penalty(fixedwindow 5/15m; for=1h)".
func (p *Penalty) String() string {
	return fmt.Sprintf("penalty(%v; for=%s)", p.Inner(), algo.FormatDuration(p.Duration()))
}
