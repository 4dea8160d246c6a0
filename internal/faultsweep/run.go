package faultsweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/storage"
)

// A run requests more than both limits allow. The clock stands still, so nothing is refilled.
const (
	requests  = 24
	userLimit = 3
	allLimit  = 8
	allUsers  = "all users"
)

var users = [...]string{"ann", "bob", "cat"}

const (
	longTimeout  = 20 * time.Second       // no call reaches it
	shortTimeout = 500 * time.Millisecond // ends calls that hang, but no others on a busy machine
	maxDuration  = 5 * time.Second        // of a call that does not hang
	slack        = time.Second            // how late a call on a busy machine may end
)

// run is a sequence of requests with at most one fault.
type run struct {
	Subject
	namespace string
	fault     faultproxy.Fault

	admitted, unknown map[string]int64 // by user
	failed            int              // decisions that returned an error
	unknownByFault    int              // decisions with an unknown outcome that had the fault
}

// newLimiters returns n limiters with the same rules.
func (r *run) newLimiters(n int, store storage.Store, denialCacheTTL, timeout time.Duration) ([]*compose.Limiter[string], error) {
	perUser, err := gcra.New(gcra.Options{Limit: algo.Per(userLimit, time.Hour)})
	if err != nil {
		return nil, err
	}
	overall, err := gcra.New(gcra.Options{Limit: algo.Per(allLimit, time.Hour)})
	if err != nil {
		return nil, err
	}
	o := compose.Options[string]{Namespace: r.namespace, Clock: fixedClock, Timeout: timeout, DenialCacheTTL: denialCacheTTL}
	limiters := make([]*compose.Limiter[string], n)
	for i := range limiters {
		limiters[i], err = o.New(store,
			compose.Rule[string]{Name: "user", Key: func(user string) string { return user }, Policy: perUser},
			compose.Rule[string]{Name: "all", Policy: overall},
		)
		if err != nil {
			return nil, err
		}
	}
	return limiters, nil
}

func fixedClock() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// usesContext reports whether the context limits the time of a call, instead of the timeout.
func (r *run) usesContext() bool { return r.fault.At%2 == 0 }

func (r *run) timeout() time.Duration {
	if r.fault.Kind.Hangs() && !r.usesContext() {
		return shortTimeout
	}
	return longTimeout
}

// maxDuration returns the longest time that a call may take.
func (r *run) maxDuration() time.Duration {
	if r.fault.Kind.Hangs() {
		return shortTimeout + slack
	}
	return maxDuration
}

func (r *run) context() (context.Context, context.CancelFunc) {
	if r.fault.Kind.Hangs() && r.usesContext() {
		return context.WithTimeout(context.Background(), shortTimeout)
	}
	return context.Background(), func() {}
}

// do makes the decisions and reports what is wrong with them.
func (r *run) do() error {
	// Cached denials last longer than a run, so the number of messages is the same in each run.
	limiters, err := r.newLimiters(2, r.Store, time.Hour, r.timeout())
	if err != nil {
		return err
	}
	direct, err := r.newLimiters(1, r.Direct, -1, longTimeout)
	if err != nil {
		return err
	}
	r.admitted, r.unknown = map[string]int64{}, map[string]int64{}
	r.Proxy.Plan(r.fault)
	var wrong []error
	for i := range requests {
		user := users[i/len(limiters)%len(users)]
		if err := r.request(limiters[i%len(limiters)], direct[0], user); err != nil {
			wrong = append(wrong, fmt.Errorf("request %d: %w", i+1, err))
		}
	}
	return errors.Join(append(wrong, r.awaitFault(), r.checkStored(direct[0]))...)
}

// request makes one decision and reports what is wrong with it.
func (r *run) request(limiter, direct *compose.Limiter[string], user string) error {
	ctx, cancel := r.context()
	defer cancel()
	hits, begun := len(r.Proxy.Hits()), time.Now()
	d, err := limiter.Allow(ctx, user)
	if took := time.Since(begun); took > r.maxDuration() {
		return fmt.Errorf("the call took %v; the maximum is %v", took, r.maxDuration())
	}
	switch {
	case err != nil:
		return r.checkError(user, d, err, len(r.Proxy.Hits()) > hits)
	case d.Allowed:
		r.admitted[user]++
		r.admitted[allUsers]++
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
func (r *run) checkError(user string, d compose.Decision, err error, hit bool) error {
	r.failed++
	unknown := errors.Is(err, storage.ErrOutcomeUnknown)
	if unknown {
		r.unknown[user]++
		r.unknown[allUsers]++
	}
	if unknown && hit {
		r.unknownByFault++
	}
	switch {
	case d.Allowed:
		return fmt.Errorf("allowed, but returned an error: %w", err)
	case !unknown && !errors.Is(err, storage.ErrNotApplied):
		return fmt.Errorf("neither ErrOutcomeUnknown nor ErrNotApplied: %w", err)
	case !unknown && !isAny(err, storage.ErrUnavailable, storage.ErrContended, context.DeadlineExceeded):
		return fmt.Errorf("the error has no cause: %w", err)
	case !r.fault.Kind.Hangs() && !(unknown && hit):
		return fmt.Errorf("failed although there was time for a retry: %w", err)
	}
	return nil
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// awaitFault waits until the fault has happened, including a delayed request. Then it closes the
// connections that hang.
func (r *run) awaitFault() error {
	defer r.Proxy.Refuse()
	if r.fault.Kind == faultproxy.None {
		return nil
	}
	for deadline := time.Now().Add(longTimeout); len(r.Proxy.Hits()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the fault did not happen in %d messages", r.Proxy.Exchanges())
		}
		r.Proxy.Release()
	}
	return nil
}

// checkStored compares the results of the calls with the stored states.
func (r *run) checkStored(direct *compose.Limiter[string]) error {
	var wrong []error
	if r.unknownByFault > 1 {
		wrong = append(wrong, fmt.Errorf("one fault caused %d unknown outcomes", r.unknownByFault))
	}
	for _, user := range users {
		d, err := direct.Peek(context.Background(), user)
		if err != nil {
			return err
		}
		wrong = append(wrong, r.checkUsed(user, userLimit, d.Results[0].Remaining))
		if user == users[0] {
			wrong = append(wrong, r.checkUsed(allUsers, allLimit, d.Results[1].Remaining), r.checkExhausted(d.Results[1].Remaining))
		}
	}
	return errors.Join(wrong...)
}

func (r *run) checkUsed(user string, limit, remaining int64) error {
	used := limit - remaining
	if used < r.admitted[user] || used > r.admitted[user]+r.unknown[user] || used > limit {
		return fmt.Errorf("%s: used %d of %d, admitted %d, outcome unknown %d", user, used, limit, r.admitted[user], r.unknown[user])
	}
	return nil
}

// checkExhausted checks that the overall limit is used up. There are enough requests to use it up
// despite one failure.
func (r *run) checkExhausted(remaining int64) error {
	if r.failed <= 1 && remaining != 0 {
		return fmt.Errorf("requests were denied although %d units remain", remaining)
	}
	return nil
}
