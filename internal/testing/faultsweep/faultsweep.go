// Package faultsweep tests limiters on a store behind a proxy. It injects every kind of network
// fault at every message of a run:
//
//	faultsweep.Run(t, func(t *testing.T) faultsweep.Subject {
//		proxy := faultproxy.Redis(t, server.Addr())
//		return faultsweep.Subject{Proxy: proxy, Store: storeOn(proxy.Addr()), Direct: storeOn(server.Addr())}
//	})
//
// In a run, two limiters take turns and make 24 decisions, so that each limiter reads what the
// other wrote. A run has one fault, at the n-th message. There is one run for each n and each kind
// of fault. Then the results of the calls are compared with the stored states:
//
//   - Used units are admitted units, except for decisions that returned ErrOutcomeUnknown. At most
//     one decision of a run returns it: the one with the fault.
//   - No limit is exceeded.
//   - A denied request would be denied without the fault, too.
//   - A decision fails only if the fault left no time for a retry.
//   - A call ends at its timeout or at the deadline of its context.
package faultsweep

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/storage"
)

// Subject is a store that is reached through a proxy.
type Subject struct {
	Proxy  *faultproxy.Proxy
	Store  storage.Store // uses the proxy, on a client that is not connected yet
	Direct storage.Store // the same records without the proxy
}

// Run injects each kind of fault at each message. Without kinds it uses all of them. Each run has
// its own subject. All subjects may share one table or prefix, because their keys differ.
func Run(t *testing.T, open func(t *testing.T) Subject, kinds ...faultproxy.Kind) {
	t.Helper()
	messages := countMessages(t, open)
	t.Logf("a run has %d messages", messages)
	if len(kinds) == 0 {
		kinds = faultproxy.Kinds()
	}
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			var group sync.WaitGroup
			for i := range messages {
				r := newRun(t, i, open, faultproxy.Fault{At: i + 1, Kind: kind})
				slots <- struct{}{}
				group.Go(func() {
					if err := r.doWithFault(); err != nil {
						t.Errorf("%v at message %d of %d:\n%v", kind, i+1, messages, err)
					}
					<-slots
				})
			}
			group.Wait()
		})
	}
}

// slots limits the concurrent runs of the process, so that calls end in time. Runs mostly wait.
var slots = make(chan struct{}, 10)

// countMessages counts the messages of a run without a fault. The first run is not counted,
// because it may load scripts into the server.
func countMessages(t *testing.T, open func(t *testing.T) Subject) int {
	t.Helper()
	var last *run
	for i := range 2 {
		last = newRun(t, i, open, faultproxy.Fault{})
		if _, err := last.do(); err != nil {
			t.Fatal(err)
		}
	}
	return last.Proxy.Exchanges()
}

// A run requests more than both limits allow. The clock does not advance, so nothing is refilled.
const (
	requests  = 24
	userLimit = 3
	allLimit  = 8
	allUsers  = "all users"
)

var users = [...]string{"ann", "bob", "cat"}

const (
	longTimeout  = 20 * time.Second       // no call reaches it
	shortTimeout = 800 * time.Millisecond // ends calls that hang, but no others on a busy machine
	maxDuration  = 10 * time.Second       // of a call that does not hang, on a busy machine
	slack        = 2 * time.Second        // how late a call on a busy machine may end; before the 3s of go-redis
)

// run is a sequence of requests with at most one fault.
type run struct {
	Subject
	namespace string
	fault     faultproxy.Fault

	admitted, unknown counts
	again             counts // decisions that had the fault and were decided again, so they may be charged twice
	failed            int    // decisions that returned an error
	unknownByFault    int    // decisions with an unknown outcome that had the fault
}

// counts are numbers of decisions by user, and of all users.
type counts map[string]int64

func (c counts) add(user string) {
	c[user]++
	c[allUsers]++
}

func newRun(t *testing.T, number int, open func(t *testing.T) Subject, fault faultproxy.Fault) *run {
	return &run{Subject: open(t), namespace: fmt.Sprint(t.Name(), " ", number, " ", rand.Text()), fault: fault}
}

// timeouts returns the timeout of the limiters and that of the contexts, and the longest time that a call
// may take. If the fault hangs, one of the timeouts ends the call.
func (r *run) timeouts() (limiter, context, longest time.Duration) {
	switch {
	case !r.fault.Kind.Hangs():
		return longTimeout, longTimeout, maxDuration
	case r.fault.At%2 == 0:
		return longTimeout, shortTimeout, shortTimeout + slack
	default:
		return shortTimeout, longTimeout, shortTimeout + slack
	}
}

func (r *run) newLimiter(store storage.Store, denialCacheTTL, timeout time.Duration) (*sluice.Limiter[string], error) {
	clock := func() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }
	o := sluice.Options[string]{Namespace: r.namespace, Clock: clock, Timeout: timeout, DenialCacheTTL: denialCacheTTL}
	return o.New(store,
		sluice.Rule[string]{Name: "user", Key: func(user string) string { return user }, Spec: fmt.Sprintf("gcra %d/h", userLimit)},
		sluice.Rule[string]{Name: "all", Spec: fmt.Sprintf("gcra %d/h", allLimit)},
	)
}

// doWithFault repeats a run whose fault did not happen. On a busy machine calls can end before they
// send a message.
func (r *run) doWithFault() error {
	for range 3 {
		if happened, err := r.do(); happened || err != nil {
			return err
		}
		r.namespace += " again"
	}
	return fmt.Errorf("the fault did not happen in %d messages", r.Proxy.Exchanges())
}

// do makes the decisions. It reports whether the fault has happened, and what is wrong with the decisions.
func (r *run) do() (happened bool, err error) {
	var limiters [2]*sluice.Limiter[string]
	timeout, _, _ := r.timeouts()
	for i := range limiters {
		// Cached denials last longer than a run, so the number of messages is the same in each run.
		if limiters[i], err = r.newLimiter(r.Store, time.Hour, timeout); err != nil {
			return false, err
		}
	}
	direct, err := r.newLimiter(r.Direct, -1, longTimeout)
	if err != nil {
		return false, err
	}
	r.admitted, r.unknown, r.again, r.failed, r.unknownByFault = counts{}, counts{}, counts{}, 0, 0
	r.Proxy.Plan(r.fault)
	var wrong []error
	for i := range requests {
		user := users[i/len(limiters)%len(users)]
		if err := r.request(limiters[i%len(limiters)], direct, user); err != nil {
			wrong = append(wrong, fmt.Errorf("request %d: %w", i+1, err))
		}
	}
	happened = r.awaitFault()
	return happened, errors.Join(append(wrong, r.checkStored(direct))...)
}

// request makes one decision and reports what is wrong with it.
func (r *run) request(limiter, direct *sluice.Limiter[string], user string) error {
	_, timeout, longest := r.timeouts()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	hits, begun := r.Proxy.Hits(), time.Now()
	d, err := limiter.Allow(ctx, user)
	if took := time.Since(begun); took > longest {
		return fmt.Errorf("the call took %v; the maximum is %v", took, longest)
	}
	hit := r.Proxy.Hits() > hits
	if err != nil {
		return r.checkError(user, d, err, hit)
	}
	if hit {
		r.again.add(user)
	}
	if d.Allowed {
		r.admitted.add(user)
		return nil
	}
	now, err := direct.Peek(context.Background(), user)
	if err == nil && now.Allowed {
		err = errors.New("denied, but the limit is not used up")
	}
	return err
}

// checkError counts a decision that returned an error, and reports what is wrong with the error.
// hit is whether the decision had the fault.
func (r *run) checkError(user string, d sluice.Decision, err error, hit bool) error {
	r.failed++
	unknown := errors.Is(err, storage.ErrOutcomeUnknown)
	if unknown {
		r.unknown.add(user)
	}
	if unknown && hit {
		r.unknownByFault++
	}
	isErr := func(target error) bool { return errors.Is(err, target) }
	causes := []error{storage.ErrUnavailable, storage.ErrContended, context.DeadlineExceeded}
	switch {
	case d.Allowed:
		return fmt.Errorf("allowed, but returned an error: %w", err)
	case !unknown && !errors.Is(err, storage.ErrNotApplied):
		return fmt.Errorf("neither ErrOutcomeUnknown nor ErrNotApplied: %w", err)
	case !unknown && !slices.ContainsFunc(causes, isErr):
		return fmt.Errorf("the error has no cause: %w", err)
	case !r.fault.Kind.Hangs() && !(unknown && hit):
		return fmt.Errorf("failed although there was time for a retry: %w", err)
	}
	return nil
}

// awaitFault waits until the fault has happened, including a delayed request. Then it closes the
// connections that hang. It reports whether the fault has happened.
func (r *run) awaitFault() bool {
	defer r.Proxy.Disconnect()
	if r.fault.Kind == faultproxy.None {
		return true
	}
	for deadline := time.Now().Add(maxDuration); r.Proxy.Hits() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
		r.Proxy.Release()
	}
	return true
}

// checkStored compares the results of the calls with the stored states.
func (r *run) checkStored(direct *sluice.Limiter[string]) error {
	var wrong []error
	if r.unknownByFault > 1 {
		wrong = append(wrong, fmt.Errorf("one fault caused %d unknown outcomes", r.unknownByFault))
	}
	var all int64 // units of the overall limit that remain
	for _, user := range users {
		d, err := direct.Peek(context.Background(), user)
		if err != nil {
			return err
		}
		wrong = append(wrong, r.checkUsed(user, userLimit, d.Results[0].Remaining))
		all = d.Results[1].Remaining
	}
	if r.failed <= 1 && all != 0 { // there are enough requests to use it up despite one failure
		wrong = append(wrong, fmt.Errorf("requests were denied although %d units remain", all))
	}
	return errors.Join(append(wrong, r.checkUsed(allUsers, allLimit, all))...)
}

func (r *run) checkUsed(user string, limit, remaining int64) error {
	used := limit - remaining
	if used < r.admitted[user] || used > r.admitted[user]+r.unknown[user]+r.again[user] || used > limit {
		return fmt.Errorf("%s: used %d of %d, admitted %d, outcome unknown %d, decided again %d", user, used, limit, r.admitted[user], r.unknown[user], r.again[user])
	}
	return nil
}
