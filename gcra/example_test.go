package gcra_test

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// To test a limit, use literal times. The test needs no sleep and no mock.
func Example() {
	limit := gcra.Options{Limit: algo.Per(3, time.Hour), Burst: 2}
	var ann gcra.State
	for _, at := range []time.Duration{0, 0, 0, 20 * time.Minute, 21 * time.Minute} {
		var r algo.Result
		ann, r = gcra.Step(ann, noon.Add(at), limit)
		fmt.Println(at, r.Allowed, r.Remaining, r.RetryAfter)
	}
	// Output:
	// 0s true 1 0s
	// 0s true 0 0s
	// 0s false 0 20m0s
	// 20m0s true 0 0s
	// 21m0s false 0 19m0s
}

func ExampleStep() {
	o := gcra.Options{Limit: algo.Per(10, time.Second), Burst: 3}
	s, r := gcra.Step(gcra.State{}, noon, o)
	fmt.Println("first:  allowed", r.Allowed, "left", r.Remaining, "next in", r.NextRefill)

	o.Cost = 3
	s, r = gcra.Step(s, noon, o)
	fmt.Println("three:  allowed", r.Allowed, "left", r.Remaining, "retry in", r.RetryAfter)

	_, r = gcra.Step(s, noon.Add(r.RetryAfter), o)
	fmt.Println("retry:  allowed", r.Allowed, "left", r.Remaining, "full in", r.ResetAfter)
	// Output:
	// first:  allowed true left 2 next in 100ms
	// three:  allowed false left 2 retry in 100ms
	// retry:  allowed true left 0 full in 300ms
}

func ExamplePeek() {
	o := gcra.Options{Limit: algo.Per(10, time.Second), Burst: 3, Cost: 2}
	s, _ := gcra.Step(gcra.State{}, noon, o)
	for _, at := range []time.Duration{0, 99 * time.Millisecond, 100 * time.Millisecond} {
		r := gcra.Peek(s, noon.Add(at), o)
		fmt.Println(at, r.Allowed, r.Remaining, r.Paid)
	}
	// Output:
	// 0s false 1 0
	// 99ms false 1 0
	// 100ms true 2 0
}

// Take an estimate first, and give back the units that were not needed.
func ExampleRefund() {
	o := gcra.Options{Limit: algo.Per(1000, time.Minute), Cost: 800}
	s, r := gcra.Step(gcra.State{}, noon, o)
	fmt.Println("reserved", r.Paid, "left", r.Remaining)

	o.Cost = 300
	_, r = gcra.Refund(s, noon, o)
	fmt.Println("refunded", -r.Paid, "left", r.Remaining)
	// Output:
	// reserved 800 left 200
	// refunded 300 left 500
}

// Charge the units that exceeded an estimate, even if fewer are left.
func ExampleCharge() {
	o := gcra.Options{Limit: algo.Per(1000, time.Minute), Cost: 900}
	s, _ := gcra.Step(gcra.State{}, noon, o)

	o.Cost = 350
	s, r := gcra.Charge(s, noon, o)
	fmt.Println("charged", r.Paid, "left", r.Remaining)

	o.Cost = 1
	r = gcra.Peek(s, noon, o)
	fmt.Println("allowed", r.Allowed, "retry in", r.RetryAfter)
	// Output:
	// charged 350 left -250
	// allowed false retry in 15.06s
}

func ExamplePolicy_Bound() {
	p, _ := gcra.New(gcra.Options{Limit: algo.Per(100, time.Minute), Burst: 20})
	fmt.Println(p.Bound(time.Nanosecond))
	fmt.Println(p.Bound(time.Minute))
	fmt.Println(p.Bound(time.Hour))
	// Output:
	// 20
	// 120
	// 6020
}

// A Policy has the same functions for encoded states, which a store can hold.
func ExamplePolicy() {
	p, err := gcra.New(gcra.Options{Limit: algo.Per(100, time.Minute), Burst: 20})
	if err != nil {
		panic(err)
	}
	state, r, err := p.Step(nil, nil, noon, 20)
	fmt.Println(p, r.Allowed, len(state), err)

	next, r, err := p.Step(nil, state, noon, 1)
	fmt.Println(p, r.Allowed, r.RetryAfter, string(next) == string(state), err)
	// Output:
	// gcra 100/m burst=20 true 25 <nil>
	// gcra 100/m burst=20 false 600ms true <nil>
}

// New and Validate return the same error.
func ExampleNew() {
	o := gcra.Options{Limit: algo.Per(100, time.Minute), Burst: -1}
	_, err := gcra.New(o)
	fmt.Println(err)
	fmt.Println(o.Validate())
	// Output:
	// gcra: Burst must be at least 1, or 0 for the limit's count, got -1
	// gcra: Burst must be at least 1, or 0 for the limit's count, got -1
}

func ExampleParseState() {
	s, _ := gcra.Step(gcra.State{}, noon, gcra.Options{Limit: algo.Per(5, time.Hour), Cost: 2})
	state := gcra.AppendState(nil, s)
	fmt.Printf("%x\n", state)

	again, err := gcra.ParseState(state)
	fmt.Println(again == s, err)
	// Output:
	// 6701064752550bf0000000000055d4a800000000002aea5400
	// true <nil>
}
