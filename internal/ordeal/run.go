package ordeal

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

// A run is asked for more than both limits allow, and nothing is refilled.
const (
	asks     = 24
	ofEach   = 3
	ofAll    = 8
	everyone = "everyone"
)

var users = [...]string{"ann", "bob", "cat"}

const (
	plenty = 20 * time.Second       // a timeout that no call reaches
	scarce = 250 * time.Millisecond // a timeout that ends a call that hangs
	prompt = 5 * time.Second        // what no call takes that meets no fault that hangs
	slack  = time.Second            // by which a call on a busy machine may miss its deadline
)

// A run has one fault at most.
type run struct {
	Subject
	namespace string
	fault     faultproxy.Fault

	admitted, doubtful map[string]int64
	failed             int // decisions that ended with an error
	struck             int // decisions in doubt that met the fault
}

// limiters are some that share their limits.
func (r *run) limiters(n int, store storage.Store, denialCacheTTL time.Duration, timeout time.Duration) ([]*compose.Limiter[string], error) {
	each, err := gcra.New(gcra.Options{Limit: algo.Per(ofEach, time.Hour)})
	if err != nil {
		return nil, err
	}
	all, err := gcra.New(gcra.Options{Limit: algo.Per(ofAll, time.Hour)})
	if err != nil {
		return nil, err
	}
	o := compose.Options[string]{Namespace: r.namespace, Clock: still, Timeout: timeout, DenialCacheTTL: denialCacheTTL}
	limiters := make([]*compose.Limiter[string], n)
	for i := range limiters {
		limiters[i], err = o.New(store,
			compose.Rule[string]{Name: "each", Key: func(user string) string { return user }, Policy: each},
			compose.Rule[string]{Name: "all", Policy: all},
		)
		if err != nil {
			return nil, err
		}
	}
	return limiters, nil
}

// still is a clock that stands still.
func still() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// byContext tells whether the time of a call is limited by its context, and not
// by the timeout.
func (r *run) byContext() bool { return r.fault.At%2 == 0 }

func (r *run) timeout() time.Duration {
	if r.fault.Kind.Hangs() && !r.byContext() {
		return scarce
	}
	return plenty
}

// most is the longest that a call may take.
func (r *run) most() time.Duration {
	if r.fault.Kind.Hangs() {
		return scarce + slack
	}
	return prompt
}

func (r *run) context() (context.Context, context.CancelFunc) {
	if r.fault.Kind.Hangs() && r.byContext() {
		return context.WithTimeout(context.Background(), scarce)
	}
	return context.Background(), func() {}
}

// do makes the decisions, and says what is wrong with them.
func (r *run) do() error {
	limiters, err := r.limiters(2, r.Store, time.Hour, r.timeout()) // so that the number of messages does not depend on how long they take
	if err != nil {
		return err
	}
	truth, err := r.limiters(1, r.Truth, -1, plenty) // which meets no fault, but a busy machine
	if err != nil {
		return err
	}
	r.admitted, r.doubtful = map[string]int64{}, map[string]int64{}
	r.Proxy.Plan(r.fault)
	var wrong []error
	for i := range asks {
		user := users[i/len(limiters)%len(users)]
		if err := r.ask(limiters[i%len(limiters)], truth[0], user); err != nil {
			wrong = append(wrong, fmt.Errorf("ask %d: %w", i+1, err))
		}
	}
	return errors.Join(append(wrong, r.settle(), r.judge(truth[0]))...)
}

// ask makes one decision, and says what is wrong with it.
func (r *run) ask(limiter, truth *compose.Limiter[string], user string) error {
	ctx, cancel := r.context()
	defer cancel()
	met, begun := len(r.Proxy.Hits()), time.Now()
	d, err := limiter.Allow(ctx, user)
	if took := time.Since(begun); took > r.most() {
		return fmt.Errorf("the call took %v, and may take %v", took, r.most())
	}
	switch {
	case err != nil:
		return r.fail(user, d, err, len(r.Proxy.Hits()) > met)
	case d.Allowed:
		r.admitted[user]++
		r.admitted[everyone]++
		return nil
	}
	now, err := truth.Peek(context.Background(), user)
	if err == nil && now.Allowed {
		err = errors.New("a denial where there is room")
	}
	return err
}

// fail notes a decision that was not made, and says what is wrong with that. Met
// tells whether it met the fault.
func (r *run) fail(user string, d compose.Decision, err error, met bool) error {
	r.failed++
	doubtful := errors.Is(err, storage.ErrOutcomeUnknown)
	if doubtful {
		r.doubtful[user]++
		r.doubtful[everyone]++
	}
	if doubtful && met {
		r.struck++
	}
	switch {
	case d.Allowed:
		return fmt.Errorf("allowed, and failed: %w", err)
	case !doubtful && !errors.Is(err, storage.ErrNotApplied):
		return fmt.Errorf("neither in doubt nor not applied: %w", err)
	case !doubtful && !isAny(err, storage.ErrUnavailable, storage.ErrContended, context.DeadlineExceeded):
		return fmt.Errorf("no reason is told: %w", err)
	case !r.fault.Kind.Hangs() && !(doubtful && met):
		return fmt.Errorf("failed where it could have asked again: %w", err)
	}
	return nil
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// settle returns when the fault has happened, a late request included, and ends
// the connections that it left stuck.
func (r *run) settle() error {
	defer r.Proxy.Refuse()
	if r.fault.Kind == faultproxy.None {
		return nil
	}
	for deadline := time.Now().Add(plenty); len(r.Proxy.Hits()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the fault did not happen in %d messages", r.Proxy.Seen())
		}
		r.Proxy.Release()
	}
	return nil
}

// judge compares what was told with what is stored.
func (r *run) judge(truth *compose.Limiter[string]) error {
	var wrong []error
	if r.struck > 1 {
		wrong = append(wrong, fmt.Errorf("one fault, and %d decisions in doubt", r.struck))
	}
	for _, user := range users {
		d, err := truth.Peek(context.Background(), user)
		if err != nil {
			return err
		}
		wrong = append(wrong, r.compare(user, ofEach, d.Results[0].Remaining))
		if user == users[0] {
			wrong = append(wrong, r.compare(everyone, ofAll, d.Results[1].Remaining), r.exhausted(d.Results[1].Remaining))
		}
	}
	return errors.Join(wrong...)
}

func (r *run) compare(who string, limit, remaining int64) error {
	used := limit - remaining
	if used < r.admitted[who] || used > r.admitted[who]+r.doubtful[who] || used > limit {
		return fmt.Errorf("%s: of %d used %d, admitted %d, in doubt %d", who, limit, used, r.admitted[who], r.doubtful[who])
	}
	return nil
}

// exhausted requires that what was not lost was admitted: so much was asked for
// that one failure makes no difference.
func (r *run) exhausted(remaining int64) error {
	if r.failed <= 1 && remaining != 0 {
		return fmt.Errorf("%d are left, and were refused", remaining)
	}
	return nil
}
