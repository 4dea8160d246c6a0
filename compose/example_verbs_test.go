package compose_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

// newQuota returns a limiter of 5 an hour for each user, whose clock always shows noon.
func newQuota() *compose.Limiter[string] {
	limiter, err := compose.Options[string]{Clock: noon}.New(nil, compose.Rule[string]{
		Name: "user",
		Key:  func(user string) string { return user },
		Spec: "fixedwindow 5/hour",
	})
	if err != nil {
		panic(err)
	}
	return limiter
}

// An error means that the limiter could not decide. It is never a denial.
func ExampleLimiter_Allow_errors() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	unknown := errors.New("unknown plan")
	for _, test := range []struct {
		ctx   context.Context
		store storage.Store
		plan  error
	}{
		{context.Background(), nil, nil},
		{context.Background(), unreachable{}, nil},
		{context.Background(), nil, unknown},
		{ended, nil, nil},
	} {
		limiter, err := compose.Options[string]{Timeout: 10 * time.Millisecond}.New(test.store, compose.Rule[string]{
			Name:      "user",
			PolicyFor: func(string) (algo.Policy, error) { return mustPolicy("fixedwindow 5/hour"), test.plan },
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		decision, err := limiter.Allow(test.ctx, "ann")
		var rule *compose.RuleError
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

// AllowN allows all n calls or none.
func ExampleLimiter_AllowN() {
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

// Peek returns the decision that Allow would return, and pays nothing. To enforce a limit use
// Allow, because other calls can pay right after a Peek.
func ExampleLimiter_Peek() {
	limiter, ctx := newQuota(), context.Background()
	for range 2 {
		d, err := limiter.Peek(ctx, "ann")
		fmt.Println(d.Allowed, d.Remaining, d.Results[0].Limit, err)
	}
	// Output:
	// true 5 5 <nil>
	// true 5 5 <nil>
}

// Refund gives units back, up to the full limit.
func ExampleLimiter_Refund() {
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
func ExampleLimiter_Charge() {
	limiter, ctx := newQuota(), context.Background()
	d, err := limiter.Charge(ctx, "ann", 7)
	fmt.Println(d.Remaining, err)
	d, err = limiter.Allow(ctx, "ann")
	fmt.Println(d.Allowed, d.RetryAfter, err)
	// Output:
	// -2 <nil>
	// false 1h0m0s <nil>
}

// Reset makes the limit of one user full again.
func ExampleLimiter_Reset() {
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

// ResetRule resets the account. The attempts of the address still count.
func ExampleLimiter_ResetRule() {
	type login struct{ account, address string }
	limiter, err := compose.New(nil,
		compose.Rule[login]{Name: "account", Key: func(l login) string { return l.account }, Spec: "fixedwindow 5/hour"},
		compose.Rule[login]{Name: "address", Key: func(l login) string { return l.address }, Spec: "fixedwindow 20/hour"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, ann := context.Background(), login{"ann", "192.0.2.1"}
	_, err = limiter.AllowN(ctx, ann, 5)
	fmt.Println(err)
	fmt.Println(limiter.ResetRule(ctx, "account", ann))
	d, err := limiter.Peek(ctx, ann)
	fmt.Println(d.Results[0].Remaining, d.Results[1].Remaining, err)
	fmt.Println(limiter.ResetRule(ctx, "acount", ann))
	// Output:
	// <nil>
	// <nil>
	// 5 15 <nil>
	// compose: ResetRule: no rule has the name "acount"; the rules are ["account" "address"]
}
