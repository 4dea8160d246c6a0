package sluice_test

// These examples show each operation of a limiter.

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
)

// quota is a rule of 5 an hour for each user.
var quota = sluice.By("quota", func(user string) string { return user }, "fixedwindow 5/hour")

// newQuota returns a limiter with the rule quota, whose clock always shows noon.
func newQuota() *sluice.Limiter[string] {
	noon := func() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }
	limiter, err := sluice.Options[string]{Clock: noon}.New(nil, quota)
	if err != nil {
		panic(err)
	}
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

// Keep renews held units while the work runs, and Settle then corrects the estimate and releases them.
func ExampleReservation_Keep() {
	same := func(name string) string { return name }
	limiter := sluice.MustFor(nil, sluice.By("running", same, "inflight 2 ttl=30s"), sluice.By("rate", same, "gcra 5/h"))
	ctx := context.Background()
	reservation, _, err := limiter.Reserve(ctx, "ann", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
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
