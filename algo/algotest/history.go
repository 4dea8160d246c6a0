package algotest

import (
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

type op = policy.Op

var allOps = policy.Ops

const (
	step   = policy.Step
	peek   = policy.Peek
	refund = policy.Refund
	charge = policy.Charge
)

// An event is a call of a policy and its result.
type event struct {
	limit algo.Limit
	op    op
	at    int64 // us since the Unix epoch
	cost  int64
	hold  int // of RunHolds: the number of the hold whose units are released or renewed; 0: new units
	r     algo.Result
	err   error
}

// A node is a state and the event that led to it. The root is a new key.
type node struct {
	state  []byte
	before *node // nil in the root
	event  event
	latest int64 // latest time of an event that changed the state; -1: none
	time   int64 // the same since the key was last full, because a full key has no time; -1: none
	depth  int
}

func root() *node { return &node{latest: -1, time: -1} }

// extend returns the node that e leads to.
func (n *node) extend(e event, state []byte) *node {
	return &node{state: state, before: n, event: e, latest: max(n.latest, e.at), time: max(n.time, e.at), depth: n.depth + 1}
}

// history returns the events from the root to n.
func (n *node) history() []event {
	var h []event
	for ; n.before != nil; n = n.before {
		h = append(h, n.event)
	}
	slices.Reverse(h)
	return h
}

// isSteady reports whether the clock never stepped back and the limit never changed.
func (n *node) isSteady() bool {
	for ; n.before != nil && n.before.before != nil; n = n.before {
		if n.event.at < n.before.event.at || n.event.limit != n.before.event.limit {
			return false
		}
	}
	return true
}

// hasRefund reports whether the history has a refund. A refund can fill a key, which then has no time.
func (n *node) hasRefund() bool {
	return slices.ContainsFunc(n.history(), func(e event) bool { return e.op == refund })
}

// epoch is time 0 of a trace.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

// An offset is an instant in us since the Unix epoch. Its String is that of a trace.
type offset int64

func (o offset) String() string { return "@" + micros(int64(o)-epoch.UnixMicro()).String() }

// after returns t+d, or math.MaxInt64 if d is algo.Never.
func after(t int64, d time.Duration) int64 {
	if d == algo.Never {
		return math.MaxInt64
	}
	return t + d.Microseconds()
}

// micros returns a number of microseconds as a Duration.
func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
