package compose_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/storage/memory"
)

// request is what a server knows of a call. Any type will do.
type request struct {
	user, plan, route, method string
}

// still is a clock that stands still, so that the examples print the same every time.
func still() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func mustPolicy(spec string) algo.Policy {
	p, err := compose.ParsePolicy(spec)
	if err != nil {
		panic(err)
	}
	return p
}

// Two limits, one by user and one by resource: a call passes both, or pays neither.
func ExampleLimiter() {
	limiter, err := compose.Options[request]{Clock: still}.New(nil, // nil: in memory
		compose.Rule[request]{Name: "user", Key: func(r request) string { return r.user }, Policy: mustPolicy("gcra 3/m")},
		compose.Rule[request]{Name: "route", Key: func(r request) string { return r.route }, Policy: mustPolicy("gcra 4/m")},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, user := range []string{"ann", "ann", "ann", "ann", "bob", "bob"} {
		d, err := limiter.Allow(context.Background(), request{user: user, route: "/search"})
		fmt.Println(user, d.Allowed, d.Rule, d.Remaining, d.RetryAfter, err)
	}
	// Output:
	// ann true user 2 0s <nil>
	// ann true user 1 0s <nil>
	// ann true user 0 0s <nil>
	// ann false user 0 20s <nil>
	// bob true route 0 0s <nil>
	// bob false route 0 15s <nil>
}

// A policy chosen by plan, and reads and writes under keys of their own.
func ExampleRule_choose() {
	plans := map[string]algo.Policy{"free": mustPolicy("gcra 1/s"), "paid": mustPolicy("gcra 100/s")}
	limiter, err := compose.Options[request]{Clock: still}.New(nil,
		compose.Rule[request]{
			Name:   "plan",
			Key:    func(r request) string { return r.method + " " + r.user },
			Choose: func(r request) algo.Policy { return plans[r.plan] },
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range []request{
		{user: "ann", plan: "free", method: "GET"},
		{user: "ann", plan: "free", method: "GET"},
		{user: "ann", plan: "free", method: "PUT"},
		{user: "bob", plan: "paid", method: "GET"},
		{user: "eve", plan: "none", method: "GET"}, // no policy: the rule does not apply
	} {
		d, err := limiter.Allow(context.Background(), r)
		fmt.Println(r.user, r.method, d.Allowed, len(d.Results), err)
	}
	// Output:
	// ann GET true 1 <nil>
	// ann GET false 1 <nil>
	// ann PUT true 1 <nil>
	// bob GET true 1 <nil>
	// eve GET true 0 <nil>
}

// An estimate is paid before the work, and settled when the work is done.
func ExampleLimiter_Reserve() {
	limiter, err := compose.Options[request]{Clock: still}.New(nil,
		compose.Rule[request]{Name: "tokens", Key: func(r request) string { return r.user }, Policy: mustPolicy("gcra 1000/m")})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, ann := context.Background(), request{user: "ann"}
	reservation, d, err := limiter.Reserve(ctx, ann, 400)
	fmt.Println(d.Allowed, d.Remaining, err)
	d, err = reservation.Settle(ctx, 150)
	fmt.Println(d.Remaining, err)
	// Output:
	// true 600 <nil>
	// 850 <nil>
}

// A rule on trial: stored and reported, never enforced.
func ExampleRule_shadow() {
	limiter, err := compose.Options[request]{Clock: still}.New(nil,
		compose.Rule[request]{Name: "stricter", Policy: mustPolicy("gcra 1/m"), Shadow: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		d, err := limiter.Allow(context.Background(), request{})
		fmt.Println(d.Allowed, "would be", d.Results[0].Allowed, err)
	}
	// Output:
	// true would be true <nil>
	// true would be false <nil>
}

// One limiter for many resources, its windows cut into twelve sub-intervals; a
// denial is answered without asking the store.
func ExampleNew() {
	lastMinute, err := movingwindow.New(movingwindow.Options{Limit: algo.Per(2, time.Minute), Slots: 12})
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := compose.New(new(memory.Store),
		compose.Rule[string]{Name: "resource", Key: func(resource string) string { return resource }, Policy: lastMinute})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, resource := range []string{"printer", "printer", "printer", "scanner"} {
		d, err := limiter.Allow(context.Background(), resource)
		fmt.Println(resource, d.Allowed, err)
	}
	// Output:
	// printer true <nil>
	// printer true <nil>
	// printer false <nil>
	// scanner true <nil>
}

// What a limiter decided goes to any system of metrics.
func ExampleOptions_observer() {
	policy, err := gcra.New(gcra.Options{Limit: algo.Per(1, time.Minute)})
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := compose.Options[string]{
		Clock:    still,
		Observer: func(e compose.Event) { fmt.Println(e.Op, e.Outcome, e.Decision.Rule, e.Decision.Attempts) },
	}.New(nil, compose.Rule[string]{Name: "user", Policy: policy})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		_, _ = limiter.Allow(context.Background(), "ann")
	}
	// Output:
	// allow allowed user 1
	// allow denied user 1
}
