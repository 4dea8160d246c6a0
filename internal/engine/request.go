package engine

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/storage/driver"
)

// Request is one decision on the states of some keys, for one call of [Engine.Decide]. Decide changes only Found and Next of its
// items. A round trip can still use it after Decide has returned, so its memory must not be used again.
type Request struct {
	Items     []driver.Item // their keys are different from each other
	Uses      []driver.Use  // one for each item, without Key. If one has no Program, no server decides the request: see Engine.Program
	Evaluator Evaluator
	Times     int32     // how many equal requests the evaluator decides as one, as many as are allowed; 0 means 1, and below 0 more than a server decides
	FailFast  bool      // do not retry until the deadline if no connection can be made
	Began     time.Time // when the call began, from which its timeout counts; zero means now

	keys        []string     // the texts of the keys of Items
	evaluations atomic.Int32 // a sender can add to it while the caller reads it
}

// Evaluator decides a request on states. Only one goroutine at a time calls it, which need not be the caller's. Its panics
// reach the caller of Decide.
type Evaluator interface {
	// Evaluate decides at now, like Decide of a driver.Update. It may be called again with other records and another
	// time. Only the last call counts. applied is how many steps were applied; see driver.Request. After an error nothing
	// is stored, and Decide returns the error unchanged.
	//
	// If replays is true, a server has decided, and applied is compared with what it applied. If Evaluate also returns
	// ErrDeclined, the request is decided in Go.
	Evaluate(now time.Time, items []driver.Item, replays bool) (applied int, err error)

	// Denied reports whether the last Evaluate denied, and how long the same states would deny the same request. Only
	// requests that give units back can shorten that time. If retryAfter is 0, the denial is not cached.
	Denied() (retryAfter time.Duration, denied bool)
}

// givesBack reports whether a use of the request gives units back. Such a request must not be
// repeated if the reply to its first attempt was lost.
func (r *Request) givesBack() bool {
	return slices.ContainsFunc(r.Uses, func(u driver.Use) bool { return u.Op == driver.Refund || u.Op == driver.Reset })
}

// writes reports whether the request can change anything.
func (r *Request) writes() bool {
	return slices.ContainsFunc(r.Uses, func(u driver.Use) bool { return u.Op != driver.Peek })
}

// allows reports whether the request takes units if they are there, and does nothing else.
func (r *Request) allows() bool {
	return !slices.ContainsFunc(r.Uses, func(u driver.Use) bool { return u.Op != driver.Allow })
}

// evaluate calls the evaluator on Found of the items. A panic of the evaluator becomes an error. With an error there are no
// changes.
func (r *Request) evaluate(now time.Time, replays bool) (applied int, err error) {
	r.evaluations.Add(1)
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{p}
		}
		if err != nil {
			r.clearNext()
		}
	}()
	return r.Evaluator.Evaluate(now, r.Items, replays)
}

func (r *Request) clearNext() {
	for i := range r.Items {
		r.Items[i].Next = driver.Change{}
	}
}

// panicked is the error of a request whose evaluator or store has panicked. Decide raises the panic again.
type panicked struct{ value any }

func (p *panicked) Error() string {
	return fmt.Sprint("engine: a policy or the store has panicked: ", p.value)
}

func isPanic(err error) bool {
	_, ok := err.(*panicked)
	return ok
}
