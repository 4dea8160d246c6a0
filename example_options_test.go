package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/sluicetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// request is the input of the rules. It can be any type.
type request struct {
	user, route string
	tokens      int64
}

// noon is a clock that always returns the same time, so that the output never changes.
func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// One rule counts requests and the other counts tokens. Reserve charges one request and
// the estimated tokens. SettleFor corrects the tokens, and the request stays charged.
func ExampleReservation_SettleFor() {
	user := func(r request) string { return r.user }
	limiter, err := sluice.Options[request]{Clock: noon}.New(nil,
		sluice.Rule[request]{Name: "requests", Key: user, Spec: "gcra 10/m"},
		sluice.Rule[request]{Name: "tokens", Key: user, Spec: "gcra 1000/m", Cost: func(r request) int64 { return r.tokens }})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, ann := context.Background(), request{user: "ann", tokens: 400}
	reservation, d, err := limiter.Reserve(ctx, ann, 1)
	fmt.Println(d.Results[0].Remaining, d.Results[1].Remaining, err)
	ann.tokens = 150
	_, err = reservation.SettleFor(context.WithoutCancel(ctx), ann)
	fmt.Println(err)
	d, err = limiter.Peek(ctx, ann)
	fmt.Println(d.Results[0].Remaining, d.Results[1].Remaining, err)
	// Output:
	// 9 600 <nil>
	// <nil>
	// 9 850 <nil>
}

// An error means that the limiter could not decide. It is never a denial.
func ExampleLimiter_Allow_errors() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	unknown, down := errors.New("unknown plan"), new(sluicetest.Store)
	down.Fail(storage.ErrUnavailable)
	for _, test := range []struct {
		ctx   context.Context
		store storage.Store
		plan  error
	}{
		{context.Background(), nil, nil},
		{context.Background(), down, nil},
		{context.Background(), nil, unknown},
		{ended, nil, nil},
	} {
		limiter, err := sluice.Options[string]{Timeout: 10 * time.Millisecond}.New(test.store, sluice.Rule[string]{
			Name:      "user",
			PolicyFor: func(string) (algo.Policy, error) { return mustPolicy("fixedwindow 5/hour"), test.plan },
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		decision, err := limiter.Allow(test.ctx, "ann")
		var rule *sluice.RuleError
		switch {
		case err == nil:
			fmt.Println("decided:", decision.Allowed)
		case errors.As(err, &rule):
			fmt.Println("a rule has a fault:", rule.Rule, rule.Err)
		case errors.Is(err, context.Canceled):
			fmt.Println("the context has ended")
		case errors.Is(err, storage.ErrUnavailable):
			fmt.Println("the store is unavailable")
		default:
			fmt.Println("no decision:", err)
		}
	}
	// Output:
	// decided: true
	// the store is unavailable
	// a rule has a fault: user PolicyFor: unknown plan
	// the context has ended
}

// WaitN sleeps until all n calls are allowed. If no wait helps, or if the wait would end after the
// deadline, WaitN fails at once.
func ExampleLimiter_WaitN() {
	limiter := sluice.MustFor(nil, sluice.Rule[string]{Name: "mails", Spec: "gcra 5/h"})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, n := range []int64{3, 3, 6} {
		d, err := limiter.WaitN(ctx, "", n)
		fmt.Println(d.Allowed, errors.Is(err, context.DeadlineExceeded), errors.Is(err, sluice.ErrExceedsCapacity))
	}
	// Output:
	// true false false
	// false true false
	// false true true
}

// PeekN returns the decision that AllowN would return. A display can show for each rule what is
// left.
func ExampleLimiter_PeekN() {
	limiter, err := sluice.Options[request]{Clock: noon}.New(nil,
		sluice.Rule[request]{Name: "user", Key: func(r request) string { return r.user }, Spec: "gcra 3/m"},
		sluice.Rule[request]{Name: "route", Key: func(r request) string { return r.route }, Spec: "gcra 5/m"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range []int64{3, 4} {
		d, err := limiter.PeekN(context.Background(), request{user: "ann", route: "/search"}, n)
		fmt.Println(n, d.Allowed, d.Rule, err)
		for i, name := range limiter.Rules() {
			fmt.Println(" ", name, d.Results[i].Remaining, "left")
		}
	}
	// Output:
	// 3 true user <nil>
	//   user 3 left
	//   route 5 left
	// 4 false user <nil>
	//   user 3 left
	//   route 5 left
}

// With FailLocal, a limiter in the memory of this process decides while the store fails.
func ExampleOptions_onFailure() {
	store := new(sluicetest.Store)
	store.Fail(storage.ErrUnavailable)
	limiter, err := sluice.Options[string]{
		Clock:     noon,
		Timeout:   10 * time.Millisecond, // the longest time of a decision
		OnFailure: sluice.FailLocal,
	}.New(store, sluice.Rule[string]{
		Name: "user",
		Key:  func(user string) string { return user },
		Spec: "gcra 1/m",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		d, err := limiter.Allow(context.Background(), "ann")
		fmt.Println(d.Allowed, d.Degraded, errors.Is(d.Err, storage.ErrUnavailable), err)
	}
	// Output:
	// true true true <nil>
	// false true true <nil>
}

// With a store on a server, one round trip buys up to 50 calls of a busy key.
func ExamplePrepay() {
	store := new(memory.Store) // it needs no round trip, so here nothing is bought ahead
	limiter, err := sluice.Options[string]{
		Prepay: sluice.Prepay{Calls: 50, For: 200 * time.Millisecond},
	}.New(store, sluice.PerKey("gcra 10000/s"))
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := limiter.Allow(context.Background(), "ann")
	fmt.Println(d.Allowed, d.Prepaid, err)
	// Output:
	// true false <nil>
}

type traceID struct{}

// The observer gets the context of the call. So a log line of a denial can have the trace id of its request.
func ExampleOptions_traceID() {
	removeTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "time" || a.Key == "duration" {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: removeTime}))
	limiter, err := sluice.Options[string]{
		Clock: noon,
		Observer: func(ctx context.Context, e sluice.Event) {
			if e.Outcome == sluice.Denied {
				log.WarnContext(ctx, "too many requests", "trace_id", ctx.Value(traceID{}), "event", e)
			}
		},
	}.New(nil, sluice.PerKey("fixedwindow 1/hour"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.WithValue(context.Background(), traceID{}, "4bf92f3577b34da6") // or that of a span
	for range 2 {
		if _, err := limiter.Allow(ctx, "ann"); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// level=WARN msg="too many requests" trace_id=4bf92f3577b34da6 event.op=allow event.outcome=denied event.allowed=false event.rule="fixedwindow 1/h" event.remaining=0 event.retry_after=1h0m0s
}
