// The tests promise that New, For and the Must forms make the limiters that they document, and that a
// faulty spec is shown with its fault. The other tests check what a limiter decides.
package sluice_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage/memory"
)

// check ends an example whose limiter cannot be made, for instance because a spec is not valid.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A limit of 3 a day for each user, in memory.
func Example() {
	limiter, err := sluice.New(nil, "fixedwindow 3/day")
	check(err)
	for _, user := range []string{"ann", "ann", "ann", "ann", "bob"} {
		decision, err := limiter.Allow(context.Background(), user)
		switch {
		case err != nil:
			fmt.Println(err) // there is no decision
		case decision.Allowed:
			fmt.Println(user, "may go on,", decision.Remaining, "left")
		default:
			fmt.Println(user, "must wait", decision.RetryAfter.Round(time.Hour))
		}
	}
	// Output:
	// ann may go on, 2 left
	// ann may go on, 1 left
	// ann may go on, 0 left
	// ann must wait 24h0m0s
	// bob may go on, 2 left
}

// A spec that is not valid is an error that shows the word at fault.
func ExampleNew() {
	_, err := sluice.New(nil, "gcra 100/min brust=20")
	fmt.Println(err)
	// Output:
	// compose: policy "gcra 100/min brust=20", column 14: unknown option "brust"; gcra takes burst=; did you mean burst=?
	// gcra 100/min brust=20
	//              ^^^^^^^^
}

// An attempt to log in is limited by its account and by its address.
type attempt struct{ account, address string }

// Two limits on one call. The third attempt is denied by the rule "account", so it is
// not charged under the rule "address".
func ExampleFor() {
	logins, err := sluice.For(nil,
		sluice.By("account", func(a attempt) string { return a.account }, "fixedwindow 2/hour"),
		sluice.By("address", func(a attempt) string { return a.address }, "fixedwindow 3/hour"))
	check(err)
	for _, account := range []string{"ann", "ann", "ann", "bob", "cat"} {
		d, err := logins.Allow(context.Background(), attempt{account, "192.0.2.1"})
		fmt.Println(account, d.Allowed, d.Rule, err)
	}
	// Output:
	// ann true account <nil>
	// ann true account <nil>
	// ann false account <nil>
	// bob true address <nil>
	// cat false address <nil>
}

// Limiters on one store share the states of rules with the same name. So the used units are kept
// if the policy of a rule changes.
func ExampleBy() {
	store := new(memory.Store)
	for _, spec := range []string{"fixedwindow 2/hour", "fixedwindow 5/hour"} {
		limiter := sluice.MustFor(store, sluice.By("user", func(user string) string { return user }, spec))
		d, err := limiter.AllowN(context.Background(), "ann", 2)
		fmt.Println(d.Allowed, d.Remaining, err)
	}
	// Output:
	// true 0 <nil>
	// true 1 <nil>
}

// A limit for each customer, and one that all customers share because it has no key.
func ExamplePerKey() {
	limiter := sluice.MustFor(nil,
		sluice.PerKey("fixedwindow 2/hour"),
		sluice.Rule[string]{Name: "everyone", Spec: "fixedwindow 3/hour"})
	for _, customer := range []string{"ann", "ann", "ann", "bob", "bob"} {
		d, err := limiter.Allow(context.Background(), customer)
		fmt.Printf("%s %v, decided by %q, %v\n", customer, d.Allowed, d.Rule, err)
	}
	// Output:
	// ann true, decided by "fixedwindow 2/h", <nil>
	// ann true, decided by "fixedwindow 2/h", <nil>
	// ann false, decided by "fixedwindow 2/h", <nil>
	// bob true, decided by "everyone", <nil>
	// bob false, decided by "everyone", <nil>
}

// A rule written out can have a cost: each call costs its bytes.
func ExampleRule_cost() {
	type upload struct {
		user  string
		bytes int64
	}
	limiter := sluice.MustFor(nil, sluice.Rule[upload]{
		Name: "bytes",
		Key:  func(u upload) string { return u.user },
		Spec: "fixedwindow 1000/hour",
		Cost: func(u upload) int64 { return u.bytes },
	})
	for _, bytes := range []int64{600, 600, 400} {
		d, err := limiter.Allow(context.Background(), upload{"ann", bytes})
		fmt.Println(bytes, d.Allowed, d.Remaining, err)
	}
	// Output:
	// 600 true 400 <nil>
	// 600 false 400 <nil>
	// 400 true 0 <nil>
}

// The policy of a tenant depends on its plan. A plan without a policy is an error, not an
// unlimited plan.
func ExampleRule_policyFor() {
	type call struct{ tenant, plan string }
	plans := map[string]sluice.Policy{
		"free": sluice.MustPolicy("fixedwindow 1/hour"),
		"paid": sluice.MustPolicy("fixedwindow 1000/hour"),
	}
	limiter := sluice.MustFor(nil, sluice.Rule[call]{
		Name: "tenant",
		Key:  func(c call) string { return c.tenant },
		PolicyFor: func(c call) (sluice.Policy, error) {
			if c.plan == "internal" {
				return nil, sluice.Skip // this rule does not apply
			}
			return plans[c.plan], nil
		},
	})
	for _, c := range []call{{"acme", "free"}, {"acme", "free"}, {"bits", "paid"}, {"cron", "internal"}, {"dodo", "trial"}} {
		d, err := limiter.Allow(context.Background(), c)
		fmt.Println(c.tenant, d.Allowed, err)
	}
	// Output:
	// acme true <nil>
	// acme false <nil>
	// bits true <nil>
	// cron true <nil>
	// dodo false sluice: rule "tenant": PolicyFor returned no policy and no error; return Skip as the error if the rule does not apply
}

// A shadow rule denies nothing. Its result says what it would have done.
func ExampleRule_shadow() {
	trial := sluice.PerKey("fixedwindow 1/hour")
	trial.Shadow = true
	limiter := sluice.MustFor(nil, sluice.PerKey("fixedwindow 3/hour"), trial)
	for range 2 {
		d, err := limiter.Allow(context.Background(), "ann")
		fmt.Println(d.Allowed, "would be", d.Results[1].Allowed, err)
	}
	// Output:
	// true would be true <nil>
	// true would be false <nil>
}

// With a clock of its own, a test decides at literal times and does not sleep.
func ExampleOptions_clock() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limiter, err := sluice.Options[string]{
		Clock: func() time.Time { return now },
	}.New(nil, sluice.PerKey("gcra 6/min burst=2"))
	check(err)
	for _, after := range []time.Duration{0, 0, 0, 10 * time.Second, 0} {
		now = now.Add(after)
		d, err := limiter.Allow(context.Background(), "ann")
		fmt.Println(now.Format("15:04:05"), d.Allowed, d.Remaining, d.RetryAfter, err)
	}
	// Output:
	// 12:00:00 true 1 0s <nil>
	// 12:00:00 true 0 0s <nil>
	// 12:00:00 false 0 10s <nil>
	// 12:00:10 true 0 0s <nil>
	// 12:00:10 false 0 10s <nil>
}

// Limiters on one store share no limits if their namespaces differ.
func ExampleOptions_namespace() {
	store := new(memory.Store)
	for _, namespace := range []string{"test", "test", "production"} {
		limiter, err := sluice.Options[string]{Namespace: namespace}.New(store, sluice.PerKey("fixedwindow 1/hour"))
		check(err)
		d, err := limiter.Allow(context.Background(), "ann")
		fmt.Println(namespace, d.Allowed, err)
	}
	// Output:
	// test true <nil>
	// test false <nil>
	// production true <nil>
}

// ParsePolicy reads a policy that comes from a file or a database.
func ExampleParsePolicy() {
	for _, spec := range []string{"gcra 100/min burst=20", "fixedwindow 5/hour", "gcra 100"} {
		policy, err := sluice.ParsePolicy(spec)
		fmt.Println(policy, err)
	}
	// Output:
	// gcra 100/m burst=20 <nil>
	// fixedwindow 5/h <nil>
	// <nil> compose: policy "gcra 100", column 6: limit "100": want COUNT/PERIOD, for instance 100/m or 5/250ms
}

// A unit test of a policy steps it at literal times, without a limiter.
func ExampleMustPolicy() {
	signups := sluice.MustPolicy("gcra 3/hour burst=2")
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var state []byte
	for _, minute := range []int{0, 0, 0, 19, 20} {
		next, r, err := signups.Step(nil, state, noon.Add(time.Duration(minute)*time.Minute), 1)
		fmt.Printf("12:%02d %v %v %v\n", minute, r.Allowed, r.RetryAfter, err)
		state = next
	}
	// Output:
	// 12:00 true 0s <nil>
	// 12:00 true 0s <nil>
	// 12:00 false 20m0s <nil>
	// 12:19 false 1m0s <nil>
	// 12:20 true 0s <nil>
}

// mails is a package variable, so a spec that is not valid ends the program at its start.
var mails = sluice.MustNew(nil, "fixedwindow 1/day")

func ExampleMustNew() {
	for range 2 {
		d, err := mails.Allow(context.Background(), "ann")
		fmt.Println(d.Allowed, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleMustFor() {
	defer func() { fmt.Println("panic:", recover()) }()
	sluice.MustFor(nil, sluice.By("account", func(a attempt) string { return a.account }, ""))
	// Output:
	// panic: sluice: rule "account" has no policy; set Spec, Policy or PolicyFor
}
