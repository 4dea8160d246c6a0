package sluice_test

// These examples show each operation and option of a limiter.

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

// quota is a rule of 5 an hour for each user.
var quota = sluice.By("quota", func(user string) string { return user }, "fixedwindow 5/hour")

// noon is a clock that always returns the same time, so that the output never changes.
func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// newQuota returns a limiter with the rule quota, whose clock always shows noon.
func newQuota() *sluice.Limiter[string] {
	limiter, err := sluice.Options[string]{Clock: noon}.New(nil, quota)
	check(err)
	return limiter
}

// AllowN allows all n calls or none.
func ExampleLimiter_allowN() {
	limiter, ctx := newQuota(), context.Background()
	for _, n := range []int64{3, 3, 2, 6} {
		d, err := limiter.AllowN(ctx, "ann", n)
		fmt.Println(n, d.Allowed, d.Remaining, d.RetryAfter == algo.Never, err)
	}
	// Output:
	// 3 true 2 false <nil>
	// 3 false 2 false <nil>
	// 2 true 0 false <nil>
	// 6 false 0 true <nil>
}

// Reserve charges an estimate before the work. Settle corrects it when the work is done.
func ExampleLimiter_reserve() {
	limiter, ctx := newQuota(), context.Background()
	reservation, d, err := limiter.Reserve(ctx, "ann", 4)
	fmt.Println(d.Allowed, d.Remaining, err)
	d, err = reservation.Settle(context.WithoutCancel(ctx), 1) // even if ctx has ended
	fmt.Println(d.Remaining, err)
	// Output:
	// true 1 <nil>
	// 4 <nil>
}

// AllowUpTo takes what is left, up to the size of a batch.
func ExampleLimiter_allowUpTo() {
	limiter := sluice.MustNew(nil, "fixedwindow 250/hour")
	for rows := int64(400); rows > 0; {
		calls, d, err := limiter.AllowUpTo(context.Background(), "ann", min(rows, 100))
		if err != nil || calls == 0 {
			fmt.Println(rows, "rows must wait for an hour:", d.RetryAfter > 59*time.Minute, err)
			return
		}
		fmt.Println("import", calls, "rows")
		rows -= calls
	}
	// Output:
	// import 100 rows
	// import 100 rows
	// import 50 rows
	// 150 rows must wait for an hour: true <nil>
}

// Do holds a unit while a function runs, and releases it.
func ExampleLimiter_do() {
	limiter := sluice.MustNew(nil, "inflight 1 ttl=30s")
	ctx := context.Background()
	d, err := limiter.Do(ctx, "ann", func(ctx context.Context) error {
		second, err := limiter.Do(ctx, "ann", func(context.Context) error { return nil })
		fmt.Println("a second call at the same time:", second.Allowed)
		return err
	})
	fmt.Println("the first call:", d.Allowed, err)
	d, err = limiter.Peek(ctx, "ann")
	fmt.Println("after it:", d.Allowed, err)
	// Output:
	// a second call at the same time: false
	// the first call: true <nil>
	// after it: true <nil>
}

// Release gives held units back. The rate stays charged.
func ExampleReservation_Release() {
	same := func(name string) string { return name }
	limiter := sluice.MustFor(nil, sluice.By("running", same, "inflight 2 ttl=30s"), sluice.By("rate", same, "gcra 5/h"))
	ctx := context.Background()
	reservation, d, err := limiter.Reserve(ctx, "ann", 1)
	fmt.Println(d.Results[0].Remaining, d.Results[1].Remaining, err)
	fmt.Println(reservation.Release(context.WithoutCancel(ctx))) // even if ctx has ended
	d, err = limiter.Peek(ctx, "ann")
	fmt.Println(d.Results[0].Remaining, d.Results[1].Remaining, err)
	// Output:
	// 1 4 <nil>
	// <nil>
	// 2 4 <nil>
}

// Renew holds the units for another TTL. If they are lost, it fails, and the work must stop.
func ExampleReservation_Renew() {
	now := noon()
	limiter, err := sluice.Options[string]{Clock: func() time.Time { return now }}.New(nil, sluice.PerKey("inflight 1 ttl=30s"))
	check(err)
	ctx := context.Background()
	reservation, _, err := limiter.Reserve(ctx, "ann", 1)
	check(err)
	for range 2 {
		now = now.Add(20 * time.Second)
		renewed := reservation.Renew(ctx)
		d, err := limiter.Peek(ctx, "ann")
		fmt.Println(renewed, d.Remaining, err)
	}
	now = now.Add(20 * time.Second)
	check(limiter.Reset(ctx, "ann"))
	_, err = limiter.Allow(ctx, "ann") // another caller takes the unit
	fmt.Println(errors.Is(reservation.Renew(ctx), sluice.ErrHoldLost), err)
	// Output:
	// <nil> 0 <nil>
	// <nil> 0 <nil>
	// true <nil>
}

// Keep renews held units while the work runs, and Settle then corrects the estimate and releases them.
func ExampleReservation_Keep() {
	same := func(name string) string { return name }
	limiter := sluice.MustFor(nil, sluice.By("running", same, "inflight 2 ttl=30s"), sluice.By("rate", same, "gcra 5/h"))
	ctx := context.Background()
	reservation, _, err := limiter.Reserve(ctx, "ann", 1)
	check(err)
	held, stop := reservation.Keep(ctx)
	fmt.Println(held.Err()) // the work uses this context
	stop()
	_, err = reservation.Settle(context.WithoutCancel(ctx), 3)
	fmt.Println(held.Err(), err)
	d, err := limiter.Peek(ctx, "ann")
	fmt.Println(d.Results[0].Remaining, d.Results[1].Remaining, err)
	// Output:
	// <nil>
	// context canceled <nil>
	// 2 2 <nil>
}

// Join makes one limiter of two. A call is charged under the rules of both, or under none.
func ExampleJoin() {
	store, same := new(memory.Store), func(user string) string { return user }
	requests := sluice.MustFor(store, sluice.By("requests", same, "fixedwindow 5/hour"))
	reports := sluice.MustFor(store, sluice.By("reports", same, "fixedwindow 1/hour"))
	both, err := sluice.Join(requests, reports)
	check(err)
	ctx := context.Background()
	for range 2 {
		d, err := both.Allow(ctx, "ann")
		fmt.Println(d.Allowed, d.Rule, err)
	}
	d, err := requests.Peek(ctx, "ann") // it shares its records with both
	fmt.Println(d.Remaining, err)
	// Output:
	// true reports <nil>
	// false reports <nil>
	// 4 <nil>
}

// Refund gives units back, at most until all units are available.
func ExampleLimiter_refund() {
	limiter, ctx := newQuota(), context.Background()
	_, err := limiter.AllowN(ctx, "ann", 4)
	fmt.Println(err)
	d, err := limiter.Refund(ctx, "ann", 1)
	fmt.Println(d.Remaining, err)
	d, err = limiter.Refund(ctx, "ann", 100)
	fmt.Println(d.Remaining, err)
	// Output:
	// <nil>
	// 2 <nil>
	// 5 <nil>
}

// Charge takes units for work that is already done. It never denies, so it can leave a debt.
func ExampleLimiter_charge() {
	limiter, ctx := newQuota(), context.Background()
	d, err := limiter.Charge(ctx, "ann", 7)
	fmt.Println(d.Remaining, err)
	d, err = limiter.Allow(ctx, "ann")
	fmt.Println(d.Allowed, d.RetryAfter, err)
	// Output:
	// -2 <nil>
	// false 1h0m0s <nil>
}

// Reset makes all units of one user available again.
func ExampleLimiter_reset() {
	limiter, ctx := newQuota(), context.Background()
	for _, user := range []string{"ann", "bob"} {
		_, err := limiter.AllowN(ctx, user, 5)
		fmt.Println(user, err)
	}
	fmt.Println(limiter.Reset(ctx, "ann"))
	for _, user := range []string{"ann", "bob"} {
		d, err := limiter.Peek(ctx, user)
		fmt.Println(user, d.Remaining, err)
	}
	// Output:
	// ann <nil>
	// bob <nil>
	// <nil>
	// ann 5 <nil>
	// bob 0 <nil>
}

// ResetRule resets the account. The attempts from the address still count.
func ExampleLimiter_resetRule() {
	logins := sluice.MustFor(nil,
		sluice.By("account", func(a attempt) string { return a.account }, "fixedwindow 5/hour"),
		sluice.By("address", func(a attempt) string { return a.address }, "fixedwindow 20/hour"))
	ctx, ann := context.Background(), attempt{"ann", "192.0.2.1"}
	_, err := logins.AllowN(ctx, ann, 5)
	fmt.Println(err)
	fmt.Println(logins.ResetRule(ctx, "account", ann))
	d, err := logins.Peek(ctx, ann)
	fmt.Println(d.Results[0].Remaining, d.Results[1].Remaining, err)
	fmt.Println(logins.ResetRule(ctx, "acount", ann))
	// Output:
	// <nil>
	// <nil>
	// 5 15 <nil>
	// sluice: ResetRule: no rule has the name "acount"; the rules are ["account" "address"]
}

// Hold is for middleware, which decides before it calls the next handler.
func ExampleLimiter_hold() {
	limiter := sluice.MustNew(nil, "inflight 3 ttl=30s")
	d, ctx, release, err := limiter.Hold(context.Background(), "ann")
	if err != nil || !d.Allowed {
		return // refuse the call
	}
	defer release()
	fmt.Println("units left:", d.Remaining)
	fmt.Println("the work goes on unless the units are lost:", ctx.Err())
	// Output:
	// units left: 2
	// the work goes on unless the units are lost: <nil>
}

// request is the input of the rules. It can be any type.
type request struct {
	user, route string
	tokens      int64
}

// One rule counts requests and the other counts tokens. Reserve charges one request and
// the estimated tokens. SettleFor corrects the tokens, and the request stays charged.
func ExampleReservation_SettleFor() {
	user := func(r request) string { return r.user }
	limiter, err := sluice.Options[request]{Clock: noon}.New(nil,
		sluice.Rule[request]{Name: "requests", Key: user, Spec: "gcra 10/m"},
		sluice.Rule[request]{Name: "tokens", Key: user, Spec: "gcra 1000/m", Cost: func(r request) int64 { return r.tokens }})
	check(err)
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
		check(err)
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
	check(err)
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
	check(err)
	for range 2 {
		d, err := limiter.Allow(context.Background(), "ann")
		fmt.Println(d.Allowed, d.Degraded, errors.Is(d.Err, storage.ErrUnavailable), err)
	}
	// Output:
	// true true true <nil>
	// false true true <nil>
}

// One round trip buys up to 50 calls of a busy key. The next calls are allowed from the memory of the process.
func ExamplePrepay() {
	store := new(sluicetest.Store) // instead of a store on a server
	limiter, err := sluice.Options[string]{
		Prepay: sluice.Prepay{Calls: 50, For: 200 * time.Millisecond},
	}.New(store, sluice.PerKey("gcra 10000/s"))
	check(err)
	prepaid := 0
	for range 1000 {
		d, err := limiter.Allow(context.Background(), "ann")
		check(err)
		if d.Prepaid {
			prepaid++
		}
	}
	fmt.Println("more than 900 of 1000 calls took no round trip:", prepaid > 900)
	// Output:
	// more than 900 of 1000 calls took no round trip: true
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
	check(err)
	ctx := context.WithValue(context.Background(), traceID{}, "4bf92f3577b34da6") // or that of a span
	for range 2 {
		if _, err := limiter.Allow(ctx, "ann"); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// level=WARN msg="too many requests" trace_id=4bf92f3577b34da6 event.op=allow event.outcome=denied event.allowed=false event.rule="fixedwindow 1/h" event.remaining=0 event.retry_after=1h0m0s
}
