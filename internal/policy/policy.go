// Package policy has what the policies of the algorithms have in common: the operations, the
// encoding of states, the text of specs, and arithmetic.
package policy

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Op is an operation on the state of a key.
type Op int

// The operations. The ones from Refund on are allowed at any cost.
const (
	Step Op = iota
	Peek
	Refund
	Charge
)

// Ops are all operations.
var Ops = []Op{Step, Peek, Refund, Charge}

// String returns the name of the operation in lower case.
func (o Op) String() string { return Word("Op", int(o), "step", "peek", "refund", "charge") }

// Apply calls the method of a policy for the operation. A Peek appends state to dst.
func (o Op) Apply(p algo.Policy, dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	switch o {
	case Refund:
		return p.Refund(dst, state, now, cost)
	case Charge:
		return p.Charge(dst, state, now, cost)
	case Peek:
		if r, err = p.Peek(state, now, cost); err == nil {
			dst = append(dst, state...)
		}
		return dst, r, err
	}
	return p.Step(dst, state, now, cost)
}

// Or returns value, or otherwise if value is 0. It is faster than cmp.Or.
func Or(value, otherwise int64) int64 {
	if value == 0 {
		return otherwise
	}
	return value
}

// OrNew returns p, or a new T if p is nil.
func OrNew[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}

// Version is the version of all state encodings. It is the second byte of a state, after the tag
// of the algorithm.
const Version = 1

// HeaderError returns the error for bytes that do not begin with that tag and Version, or nil for empty bytes.
func HeaderError(b []byte, tag byte) error {
	switch {
	case len(b) == 0:
		return nil
	case len(b) > 1 && b[0] == tag && b[1] > Version:
		return algo.ErrStateVersion
	}
	return algo.ErrState
}

// Option is an option in the spec of a policy. Value and Default have the same comparable type.
type Option struct {
	Name           string
	Value, Default any
}

// Spec returns the spec of a policy. It omits options that have their default values.
func Spec(name string, limit algo.Limit, options ...Option) string {
	spec := name + " " + limit.String()
	for _, o := range options {
		if o.Value != o.Default {
			spec += fmt.Sprintf(" %s=%v", o.Name, o.Value)
		}
	}
	return spec
}

// Word returns the word at the index value. Without such a word it returns a text such as "Refill(7)".
func Word(typeName string, value int, words ...string) string {
	if value < 0 || value >= len(words) {
		return fmt.Sprintf("%s(%d)", typeName, value)
	}
	return words[value]
}

// MulDiv returns a*b/c, rounded down, at most math.MaxInt64. None of them may be negative, and c not 0.
func MulDiv(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high >= uint64(c) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(high, low, uint64(c))
	return int64(min(quotient, math.MaxInt64))
}

// Ceil returns a/b, rounded up. a must not be negative, and a+b must not overflow. Most calls need no division, which is slow.
func Ceil(a, b int64) int64 {
	switch {
	case b == 1:
		return a
	case a <= b:
		return min(a, 1)
	}
	return (a + b - 1) / b
}

// Sum returns a+b, at most math.MaxInt64. a and b must not be negative.
func Sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
